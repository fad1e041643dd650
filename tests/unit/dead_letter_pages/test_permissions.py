"""Each action needs its permission: without it there is no button, and the address answers 403."""

from __future__ import annotations

import re

import pytest

from taskyard.deadletters.models import BulkReplay, DeadLetter
from tests.unit.dead_letter_pages.conftest import address, text_of

PAGES = ("deadletter_changelist", "deadletter_faults", "bulkreplay_changelist")
ACTIONS = {
    "replay": ("deadletter_replay", "deadletter_edit", "bulkreplay_go_on", "bulkreplay_stop"),
    "discard": ("deadletter_discard", "deadletter_reopen"),
    "reveal": ("deadletter_reveal",),
}
OF_ALL = {"replay": "deadletter_replay_all", "discard": "deadletter_discard_all"}
BUTTON = re.compile(r'class="button[^>]*>([^<]*)<')


def addresses(action, letter, bulk):
    """Return the addresses that an action needs its permission for."""
    found = [address(name, bulk.pk if name.startswith("bulk") else letter.pk) for name in ACTIONS[action]]
    return [*found, *([address(OF_ALL[action])] if action in OF_ALL else [])]


@pytest.fixture
def bulk(db):
    return BulkReplay.objects.create(
        state="waiting", filters={"status": "open"}, up_to_id=9, total=3, started_by="x"
    )


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("granted", ["view only", "the others"])
def test_a_post_without_the_permission_is_refused(log_in, app, sealed_letter, bulk, action, granted):
    others = [f"{other}_deadletter" for other in ACTIONS if other != action]
    client = log_in("bert", "view_deadletter", *(others if granted == "the others" else ()))

    for url in addresses(action, sealed_letter, bulk):
        assert client.post(url, {"confirmed": "yes", "reason": "x", "action": "replay"}).status_code == 403, (
            url
        )

    selected = {"action": action, "letter": sealed_letter.pk, "confirmed": "yes", "reason": "x"}
    if action in OF_ALL:
        assert client.post(address("deadletter_selected"), selected).status_code == 403
    sealed_letter.refresh_from_db()
    bulk.refresh_from_db()
    assert (sealed_letter.status, bulk.state) == ("open", "waiting")
    assert not sealed_letter.actions.exists()
    assert BulkReplay.objects.count() == 1


@pytest.mark.parametrize("action", ["replay", "discard", "reveal"])
def test_an_action_alone_lets_nobody_see_dead_letters(log_in, app, sealed_letter, bulk, action):
    client = log_in("bert", f"{action}_deadletter")

    for url in addresses(action, sealed_letter, bulk):
        assert client.post(url).status_code == 403, url
    for name in PAGES:
        assert client.get(address(name)).status_code == 403


def test_strangers_are_asked_to_log_in(client, letter, bulk):
    urls = [
        *map(address, PAGES),
        address("deadletter_change", letter.pk),
        address("bulkreplay_change", bulk.pk),
    ]

    for url in urls:
        assert client.get(url)["Location"].startswith("/admin/login/")
    for action in ACTIONS:
        for url in addresses(action, letter, bulk):
            assert client.post(url)["Location"].startswith("/admin/login/")
    assert DeadLetter.objects.get(pk=letter.pk).status == "open"


def test_a_reader_sees_no_buttons(reader, app, sealed_letter, bulk):
    urls = [address("deadletter_changelist"), address("deadletter_faults")]
    urls += [address("deadletter_change", sealed_letter.pk), address("bulkreplay_change", bulk.pk)]

    for url in urls:
        source = reader.get(url).content.decode()
        # the one form that sends something is the admin's own: log out
        assert source.count('method="post"') == 1, url
        assert set(BUTTON.findall(source)) <= {"Filter", "Clear"}, url
    assert "you need the permission" in text_of(reader.get(urls[2]))


@pytest.mark.parametrize(
    ("permission", "shown"),
    [
        ("replay_deadletter", ["Replay", "Edit arguments and replay"]),
        ("discard_deadletter", ["Discard\N{HORIZONTAL ELLIPSIS}"]),
        ("reveal_deadletter", ["Show the hidden values"]),
    ],
)
def test_a_permission_brings_its_buttons_and_no_others(log_in, app, sealed_letter, permission, shown):
    text = text_of(
        log_in("bert", "view_deadletter", permission).get(address("deadletter_change", sealed_letter.pk))
    )

    every = ["Edit arguments and replay", "Discard\N{HORIZONTAL ELLIPSIS}", "Show the hidden values"]
    assert [word for word in every if word in text] == [word for word in shown if word != "Replay"]


@pytest.mark.parametrize("name", ["deadletter_selected", "bulkreplay_go_on", "bulkreplay_stop"])
def test_no_address_alone_does_anything(anna, bulk, name):
    args = [bulk.pk] if name.startswith("bulk") else []

    assert anna.get(address(name, *args)).status_code == 405


@pytest.mark.parametrize("name", PAGES)
def test_a_page_that_is_read_takes_no_post(anna, letter, name):
    assert anna.post(address(name)).status_code == 405
