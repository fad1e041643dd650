"""What operators see of claims, and how they release one: the command and the pages."""

from __future__ import annotations

import io
import json
from datetime import timedelta

import pytest
from celery import current_app
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.urls import reverse

from tests.support.memory_state import MemoryStore

LIST = "admin:operations_heldclaim_changelist"
RELEASE = "admin:operations_heldclaim_release"
SINGLETON = "singleton:reports.build:north"


@pytest.fixture
def store(clock, monkeypatch):
    """The project's state store, with a lock that is held, a task that is done, and a unique call."""
    store = MemoryStore(clock)
    holder = {"task_id": "id-1", "task": "reports.build", "worker": "bulk@host"}
    store.acquire(SINGLETON, owner="a", holder=holder, lease_seconds=10)
    store.acquire(SINGLETON, owner="b", holder={"task_id": "id-9"}, lease_seconds=10)
    clock.moment += timedelta(seconds=1)
    for key, name in (("idempotent:orders.charge:7", "id-2"), ("unique:search.index:7", "id-3")):
        store.acquire(key, owner="c", holder={"task_id": name, "task": key.split(":")[1]}, lease_seconds=10)
        store.complete(key, owner="c", result=None, remember_seconds=3 * 86400)
    monkeypatch.setattr(current_app._get_current_object(), "state_store", store, raising=False)
    return store


def fence_of(store, key=SINGLETON):
    return store.read(key).fence


class TestTheCommand:
    def run(self, *words, **options):
        out = io.StringIO()
        call_command("claims", *words, stdout=out, **options)
        return out.getvalue()

    def test_it_lists_who_holds_what(self, store):
        heading, claim, holder = self.run("list").splitlines()

        assert heading.split() == ["state", "since", "(UTC)", "ends", "in", "duplicates", "claim"]
        assert claim.split() == ["held", "2026-03-01", "12:00:00", "9", "s", "1", SINGLETON]
        assert holder.strip() == "by id-1 on bulk@host"

    def test_what_is_remembered_is_shown_when_asked_for_the_oldest_first(self, store):
        text = self.run("list", "--all")

        keys = [line.split()[-1] for line in text.splitlines()[1::2]]
        assert keys == [SINGLETON, "idempotent:orders.charge:7", "unique:search.index:7"]
        assert "3.0 days           0  unique:search.index:7" in text

    def test_a_line_fits_a_terminal_of_100_columns(self, store):
        store.force_release(SINGLETON)
        key = "singleton:imports.load_customers:7b1c2e4a-north-eu"
        holder = {"task_id": "9b0a3a0e-4c6e-4dc5-90d1-2f4a0a8c5c11", "worker": "bulk@worker-3.eu.example.org"}
        store.acquire(key, owner="a", holder=holder, lease_seconds=10)

        text = self.run("list")

        assert max(map(len, text.splitlines())) <= 100
        assert holder["task_id"] in text

    @pytest.mark.parametrize(
        ("words", "keys"),
        [
            (["--kind", "idempotent", "--all"], ["7"]),
            (["--kind", "idempotent"], []),
            (["--task", "reports.build"], ["north"]),
            (["--prefix", "singleton:reports."], ["north"]),
            (["--state", "done"], ["7", "7"]),
            (["--kind", "unique", "--task", "reports.build"], []),
            (["--limit", "1"], ["north"]),
        ],
    )
    def test_it_filters(self, store, words, keys):
        assert [claim["key"] for claim in json.loads(self.run("list", "--json", *words))] == keys

    def test_for_machines(self, store):
        claim = json.loads(self.run("list", "--json"))[0]

        assert claim == {
            "stored_key": SINGLETON,
            "kind": "singleton",
            "task": "reports.build",
            "key": "north",
            "state": "held",
            "holder": {"task_id": "id-1", "task": "reports.build", "worker": "bulk@host"},
            "since": "2026-03-01T12:00:00+00:00",
            "expires_in_seconds": 9.0,
            "duplicates": 1,
            "fence": 1,
        }

    def test_nothing_there(self, store):
        assert self.run("list", "--task", "none.such").startswith(
            "No claim is held there; `claims list --all`"
        )
        assert self.run("list", "--task", "none.such", "--all") == "No claim is held or remembered there.\n"

    def test_a_release_asks_first_and_says_who_held_it(self, store, monkeypatch):
        asked = []
        monkeypatch.setattr("builtins.input", lambda text: asked.append(text) or "yes")

        out = self.run("release", SINGLETON)

        assert asked[0].startswith(
            f"{SINGLETON} is held by reports.build[id-1] on bulk@host since 2026-03-01T12:00:00+00:00. "
            "Its run goes on, if it is alive, and another one may run beside it."
        )
        assert out.startswith(f"{SINGLETON} is free. It was held by reports.build[id-1] on bulk@host")
        assert store.read(SINGLETON) is None

    def test_any_other_answer_releases_nothing(self, store, monkeypatch):
        monkeypatch.setattr("builtins.input", lambda _: "")

        with pytest.raises(CommandError, match="Nothing was released"):
            self.run("release", SINGLETON)

        assert store.read(SINGLETON) is not None

    def test_yes_does_not_ask(self, store):
        answer = json.loads(self.run("release", "idempotent:orders.charge:7", "--yes", "--json"))

        assert answer["released"]["state"] == "done"
        assert store.read("idempotent:orders.charge:7") is None

    def test_json_without_yes_is_refused_and_says_what_it_would_mean(self, store):
        with pytest.raises(CommandError, match=r"the next call with this key runs again\. Say so with --yes"):
            self.run("release", "idempotent:orders.charge:7", "--json")

    def test_a_wrong_key_is_told_with_the_nearest(self, store):
        with pytest.raises(CommandError, match=rf"is free\. Did you mean '{SINGLETON}'\?"):
            self.run("release", "singleton:reports.build:nort", "--yes")

    def test_a_holder_that_has_changed_meanwhile_keeps_it(self, store, monkeypatch):
        def answer(_):
            store.force_release(SINGLETON)
            store.acquire(SINGLETON, owner="next", holder={}, lease_seconds=10)
            return "yes"

        monkeypatch.setattr("builtins.input", answer)

        with pytest.raises(CommandError, match="has another holder by now"):
            self.run("release", SINGLETON)

        assert store.read(SINGLETON).owner == "next"

    def test_a_store_that_is_away_is_an_error_not_an_empty_list(self, store):
        store.go_away("find")

        with pytest.raises(CommandError, match="does not answer"):
            self.run("list")


@pytest.mark.django_db
class TestThePages:
    @pytest.fixture
    def client_of(self, client):
        def client_of(*permissions, is_staff=True):
            user = User.objects.create_user("operator", is_staff=is_staff)
            user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
            client.force_login(user)
            return client

        return client_of

    @pytest.fixture
    def operator(self, client_of):
        return client_of("view_heldclaim", "release_heldclaim")

    def text(self, response):
        return response.content.decode()

    def test_the_admin_index_leads_there(self, operator, store):
        assert f'href="{reverse(LIST)}"' in self.text(operator.get(reverse("admin:index")))

    def test_it_shows_what_is_held_with_a_button_each(self, operator, store):
        page = self.text(operator.get(reverse(LIST)))

        assert "reports.build" in page
        assert "north" in page
        assert "id-1" in page
        assert "bulk@host" in page
        assert "2026-03-01 12:00:00" in page
        assert "search.index" not in page
        assert f"{reverse(RELEASE)}?key=singleton%3Areports.build%3Anorth&amp;fence=1" in page

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ({"state": "all"}, {"reports.build", "orders.charge", "search.index"}),
            ({"state": "done", "kind": "unique"}, {"search.index"}),
            ({"state": "all", "task": "orders.charge"}, {"orders.charge"}),
            ({"state": "none such", "kind": "none such"}, {"reports.build", "orders.charge", "search.index"}),
        ],
    )
    def test_it_filters(self, operator, store, query, found):
        page = self.text(operator.get(reverse(LIST), query)).partition("<tbody>")[2]

        assert {name for name in ("reports.build", "orders.charge", "search.index") if name in page} == found

    def test_a_release_asks_and_changes_nothing_yet(self, operator, store):
        page = operator.get(reverse(RELEASE), {"key": SINGLETON, "fence": 1})

        assert "held by reports.build[id-1] on bulk@host" in self.text(page)
        assert "another one may run beside it" in self.text(page)
        assert store.read(SINGLETON) is not None

    def test_then_it_is_free(self, operator, store):
        page = operator.post(reverse(RELEASE), {"key": SINGLETON, "fence": 1}, follow=True)

        assert f"Released: {SINGLETON}, which was held by reports.build[id-1]" in self.text(page)
        assert store.read(SINGLETON) is None

    @pytest.mark.parametrize("method", ["get", "post"])
    def test_a_claim_of_another_holder_by_now_stays(self, operator, store, method):
        store.force_release(SINGLETON)
        store.acquire(SINGLETON, owner="next", holder={}, lease_seconds=10)

        page = getattr(operator, method)(reverse(RELEASE), {"key": SINGLETON, "fence": 1}, follow=True)

        assert "has another holder by now" in self.text(page)
        assert store.read(SINGLETON).owner == "next"

    def test_a_form_without_the_token_is_refused(self, store, admin_user):
        from django.test import Client

        client = Client(enforce_csrf_checks=True)
        client.force_login(admin_user)

        assert client.post(reverse(RELEASE), {"key": SINGLETON, "fence": 1}).status_code == 403
        assert store.read(SINGLETON) is not None

    def test_who_may_only_look_has_no_button_and_no_way_around_it(self, client_of, store):
        client = client_of("view_heldclaim")

        assert "Release" not in self.text(client.get(reverse(LIST)))
        for ask in (client.get, client.post):
            assert ask(reverse(RELEASE), {"key": SINGLETON, "fence": 1}).status_code == 403
        assert store.read(SINGLETON) is not None

    @pytest.mark.parametrize("name", [LIST, RELEASE])
    def test_staff_without_permission_sees_nothing(self, client_of, store, name):
        client = client_of()

        assert client.get(reverse(name)).status_code == 403
        assert reverse(LIST) not in self.text(client.get(reverse("admin:index")))

    @pytest.mark.parametrize("name", [LIST, RELEASE])
    def test_strangers_are_asked_to_log_in(self, client, store, name):
        answer = client.get(reverse(name))

        assert answer.status_code == 302
        assert reverse("admin:login") in answer.url

    def test_a_store_that_is_away_is_told(self, operator, store):
        store.go_away("find", "read")

        page = operator.get(reverse(LIST))
        assert (page.status_code, "does not answer" in self.text(page)) == (503, True)
        asked = operator.get(reverse(RELEASE), {"key": SINGLETON, "fence": 1})
        assert asked.status_code == 302

    def test_a_key_is_text_not_markup(self, operator, store):
        store.acquire("singleton:x:<b>bold</b>", owner="x", holder={"task_id": "<i>"}, lease_seconds=10)

        page = self.text(operator.get(reverse(LIST)))

        assert "<b>bold" not in page
        assert "&lt;b&gt;bold" in page
