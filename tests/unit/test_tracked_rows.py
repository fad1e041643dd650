"""The rows of tracked tasks: how a cancellation is noted, and when a row is deleted."""

from __future__ import annotations

from datetime import timedelta

import pytest

from taskyard.celery_options import kit_schedules
from taskyard.models import TrackedTask
from taskyard.operations.tasks import purge_tracked_tasks
from taskyard.tasks import tracked_rows

pytestmark = pytest.mark.django_db


@pytest.fixture
def make(clock):
    def make_row(task_id, *, days_ago=0, **fields):
        at = clock.now() - timedelta(days=days_ago)
        return TrackedTask.objects.create(task_id=task_id, updated_at=at, **fields)

    return make_row


def test_a_cancellation_changes_nothing_else_of_a_row(make, clock):
    make("a", state="cancelled", done=5, task_name="kept")

    tracked_rows.request_cancel("a", at=clock.now(), by="ann", reason="why", if_new={"state": "waiting"})

    row = TrackedTask.objects.get(pk="a")
    assert (row.state, row.done, row.task_name) == ("cancelled", 5, "kept")
    assert (row.cancelled_by, row.cancel_reason) == ("ann", "why")


def test_a_cancellation_makes_the_row_of_a_plain_task(clock):
    new = {"state": "running", "task_name": "n", "queue": "q"}

    tracked_rows.request_cancel("a", at=clock.now(), by="b" * 500, reason="r" * 500, if_new=new)

    row = TrackedTask.objects.get(pk="a")
    assert (row.state, row.task_name, row.queue) == ("running", "n", "q")
    assert (len(row.cancelled_by), len(row.cancel_reason)) == (150, 255)


def test_the_end_of_a_cancelled_task_keeps_who_has_asked_first(make, clock):
    tracked_rows.request_cancel("a", at=clock.now(), by="ann", reason="first", if_new={})

    tracked_rows.end_cancelled("a", at=clock.now(), name="n", queue="q", by="bob", reason="second")
    tracked_rows.end_cancelled("b", at=clock.now(), name="n", queue="q", by="bob", reason="second")

    assert set(TrackedTask.objects.values_list("task_id", "state", "cancelled_by", "cancel_reason")) == {
        ("a", "cancelled", "ann", "first"),
        ("b", "cancelled", "bob", "second"),
    }


def test_what_has_ended_keeps_its_end(make, clock):
    make("a", state="succeeded")
    make("b", state="running")

    for task_id in ("a", "b", "no such"):
        tracked_rows.end_running(task_id, "failed", at=clock.now())

    assert dict(TrackedTask.objects.values_list("task_id", "state")) == {"a": "succeeded", "b": "failed"}


@pytest.mark.parametrize("chunk_size", [1, 1000])
def test_old_rows_are_deleted_and_those_that_may_be_resumed_kept_for_longer(make, clock, chunk_size):
    make("succeeded", days_ago=31, state="succeeded")
    make("cancelled", days_ago=31, state="cancelled", checkpoint=1)
    make("failed", days_ago=31, state="failed")
    make("forgotten", days_ago=31, state="failed", checkpoint=1)
    TrackedTask.objects.filter(pk="forgotten").update(checkpoint=None)
    make("ancient", days_ago=366, state="running", checkpoint=1)
    make("young", days_ago=29, state="succeeded")
    make("resumable", days_ago=364, state="failed", checkpoint=0)
    make("waiting", days_ago=364, state="waiting")

    assert tracked_rows.purge(timedelta(days=30), chunk_size=chunk_size, clock=clock) == 5

    assert set(TrackedTask.objects.values_list("pk", flat=True)) == {"young", "resumable", "waiting"}


def test_deleting_them_is_scheduled():
    assert kit_schedules()["operations.purge_tracked_tasks"]["task"] == purge_tracked_tasks.name
