"""Tracked tasks in the admin: their progress, and the button that cancels one."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from celery import current_app
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from taskyard.deadletters.models import DeadLetter
from taskyard.models import TrackedTask
from taskyard.operations.tracked import LIMIT, what_follows
from taskyard.tasks.cancellation import CancelOutcome

LIST = "admin:taskyard_trackedtask_changelist"
CANCEL = "admin:taskyard_trackedtask_cancel"


@pytest.fixture
def log_in(db: None) -> Callable[..., Client]:
    """Make a member of the staff with these permissions, and return their browser."""

    def log_in(*permissions: str) -> Client:
        user = get_user_model().objects.create(username="anna", is_staff=True)
        found = Permission.objects.filter(
            content_type__app_label__in=("taskyard", "deadletters"), codename__in=permissions
        )
        assert len(found) == len(permissions)
        user.user_permissions.set(found)
        client = Client()
        client.force_login(user)
        return client

    return log_in


@pytest.fixture
def reader(log_in: Callable[..., Client]) -> Client:
    return log_in("view_trackedtask")


@pytest.fixture
def anna(log_in: Callable[..., Client]) -> Client:
    return log_in("view_trackedtask", "cancel_trackedtask")


def row(task_id: str = "task-1", **columns: Any) -> TrackedTask:
    values = {"task_name": "media.resize_image_set", "state": "running", "updated_at": timezone.now()}
    return TrackedTask.objects.create(task_id=task_id, **(values | columns))


def text_of(response: Any) -> str:
    assert response.status_code == 200
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", response.content.decode())).split())


def test_a_row_says_how_far_it_is_where_and_since_when(reader):
    now = timezone.now()
    row(
        done=340,
        total=1000,
        note="resizing",
        worker="bulk@host",
        started_at=now - timedelta(hours=1),
        updated_at=now - timedelta(minutes=5),
    )

    response = reader.get(reverse(LIST))

    text = text_of(response)
    assert "media.resize_image_set task-1 running 340 of 1,000, resizing bulk@host" in text
    changed, started = now - timedelta(minutes=5), now - timedelta(hours=1)
    assert f"{changed:%Y-%m-%d %H:%M:%S} 5 min ago started {started:%Y-%m-%d %H:%M:%S}" in text
    assert 'value="34"' in response.content.decode()


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        ({"done": 7}, "running 7"),
        ({"done": 7, "total": 0}, "running 7 of 0"),
        ({"note": "starting"}, "running starting"),
        (
            {
                "cancel_requested_at": "2026-03-01T12:00:00Z",
                "cancelled_by": "bert",
                "cancel_reason": "too big",
            },
            "running to be cancelled, by bert at 2026-03-01 12:00:00 UTC: too big",
        ),
        ({"task_name": "", "note": "<b>x</b>"}, "(not known) task-1 running <b>x</b>"),
    ],
    ids=str,
)
def test_what_is_not_known_is_left_out(reader, columns, shown):
    row(**columns)

    assert shown in text_of(reader.get(reverse(LIST)))


def test_a_filter_leaves_what_it_names_the_latest_on_top(reader):
    now = timezone.now()
    row("old", updated_at=now - timedelta(days=1))
    row("new", updated_at=now)
    row("ended", state="succeeded", task_name="media.other")

    def found(**query: str) -> list[str]:
        return [shown.row.task_id for shown in reader.get(reverse(LIST), query).context["tasks"]]

    assert found(task="media.resize_image_set") == ["new", "old"]
    assert found(state="succeeded") == ["ended"]
    assert found(task_id="old") == ["old"]
    assert found(task_id="none") == []
    assert len(found(state="no such state")) == 3


def test_a_long_list_is_cut_and_says_so(reader):
    TrackedTask.objects.bulk_create(
        [TrackedTask(task_id=str(number), updated_at=timezone.now()) for number in range(LIMIT + 1)]
    )

    response = reader.get(reverse(LIST))

    assert len(response.context["tasks"]) == LIMIT
    assert f"These are the newest {LIMIT}." in text_of(response)


def test_only_those_that_can_be_cancelled_have_the_button(anna):
    row("running")
    row("waiting", state="waiting")
    row("ended", state="failed")
    row("told", cancel_requested_at=timezone.now())

    source = anna.get(reverse(LIST)).content.decode()

    assert set(re.findall(r"\?task_id=(\w+)", source)) == {"running", "waiting"}


def test_the_page_asks_for_a_reason_first(anna):
    asked = anna.get(reverse(CANCEL), {"task_id": "task-1"})
    refused = anna.post(reverse(CANCEL), {"task_id": "task-1", "reason": " "})

    assert 'value="task-1"' in asked.content.decode()
    assert "Say why." in text_of(refused)


def test_a_broker_that_does_not_answer_is_named(anna):
    # that of the tests' settings: nothing listens there
    assert ":1/" in current_app.conf.broker_url

    response = anna.post(reverse(CANCEL), {"task_id": "task-1", "reason": "x"})

    assert "broker" in text_of(response)
    assert response.context["problem"]


def test_without_the_permission_there_is_no_button_and_no_page(reader):
    row()

    assert "Cancel" not in text_of(reader.get(reverse(LIST))).replace("cancelled", "")
    assert reader.get(reverse(CANCEL)).status_code == 403
    assert reader.post(reverse(CANCEL), {"task_id": "task-1", "reason": "x"}).status_code == 403


def test_strangers_are_asked_to_log_in_and_others_refused(client, log_in):
    assert client.get(reverse(LIST))["Location"].startswith("/admin/login/")
    assert client.post(reverse(CANCEL))["Location"].startswith("/admin/login/")
    nobody = log_in("cancel_trackedtask")
    assert nobody.get(reverse(LIST)).status_code == 403
    assert nobody.post(reverse(CANCEL)).status_code == 403


def test_the_row_and_the_dead_letter_lead_to_each_other(log_in):
    client = log_in("view_trackedtask", "view_deadletter")
    row("task-1", state="failed")
    letter = DeadLetter.objects.create(task_id="task-1", task_name="media.resize_image_set", reason="poison")

    tasks = client.get(reverse(LIST)).content.decode()
    page = client.get(reverse("admin:deadletters_deadletter_change", args=[letter.pk])).content.decode()

    assert (
        f'href="/admin/deadletters/deadletter/{letter.pk}/change/">dead letter {letter.pk}</a> (open)'
        in tasks
    )
    assert f'href="{reverse(LIST)}?task_id=task-1"' in page


def test_who_may_not_see_dead_letters_gets_no_link(reader):
    row("task-1", state="failed")
    letter = DeadLetter.objects.create(task_id="task-1", reason="poison")

    source = reader.get(reverse(LIST)).content.decode()

    assert f"dead letter {letter.pk} (open)" in source
    assert "/deadletters/" not in source.partition('id="tracked-tasks"')[2]


@pytest.mark.parametrize(
    ("outcome", "sentence"),
    [
        ({"state": "waiting", "task_name": "a.b"}, "The task a.b t is cancelled: it will not start."),
        ({"state": "running"}, "The task t is cancelled: its run has been told, and ends soon."),
        ({"state": "finished"}, "The task t had ended before. Nothing follows."),
        (
            {"state": "unknown"},
            "Nothing is known of the task t: no message, no row, no result. "
            "If it comes up within 30 days, it will not start.",
        ),
        (
            {"state": "unknown", "is_confirmed": False, "worker": "host:12"},
            "The task t is cancelled, but the worker host:12 that holds it has not answered. "
            "If the run has begun, it may come to its end.",
        ),
        (
            {"state": "waiting", "is_first": False, "by": "bert", "reason": "too big"},
            "The task t is cancelled: it will not start. It was cancelled before by bert: too big.",
        ),
    ],
    ids=str,
)
def test_the_message_says_what_follows(outcome, sentence):
    assert what_follows(CancelOutcome(task_id="t", **outcome)) == sentence
