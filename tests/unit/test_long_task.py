"""What a long task reports: how often it is written, what is refused, and what becomes of it at the end."""

from __future__ import annotations

from contextlib import suppress

import pytest
from celery.exceptions import Ignore, Reject, Retry
from django.db import transaction
from django.test.utils import CaptureQueriesContext

from taskyard import Cancel, LongTask, Never, Snooze
from taskyard.errors import ArgumentNotJSONError, ArgumentTooLargeError, TaskDefinitionError
from taskyard.models import TrackedTask
from taskyard.tasks import tracked_rows
from taskyard.tasks.cancelling import MARK
from taskyard.tasks.tracking import carry_checkpoint, record_start
from tests.support.runs import PartnerError, do_nothing, now, run

pytestmark = pytest.mark.django_db(transaction=True)


def row() -> TrackedTask:
    return TrackedTask.objects.get(pk="id-1")


@pytest.fixture
def long(memory_app):
    """Declare a long task with a body."""

    def declare(body, **options):
        memory_app.task(name="long.probe", base=LongTask, bind=True, retry=Never(), **options)(body)
        return memory_app.tasks["long.probe"]

    return declare


@pytest.fixture
def updates():
    """Count the statements that change the rows of tracked tasks."""
    from django.db import connection

    connection.ensure_connection()
    with CaptureQueriesContext(connection) as captured:
        yield lambda: [
            query["sql"]
            for query in captured.captured_queries
            if "trackedtask" in query["sql"] and query["sql"].startswith(("UPDATE", "INSERT"))
        ]


class TestProgress:
    def test_it_is_written_at_most_twice_a_second_and_at_the_end(self, long, clock, updates):
        seen = []

        def body(self):
            before = len(updates())
            for number in range(1000):
                self.progress(number, 1000, note=f"number {number}")
            seen.append(len(updates()) - before)
            clock.seconds += 0.5
            self.progress(1000, note="done")
            self.progress(1001, note="more than all")
            seen.append(len(updates()) - before)
            seen.append(row().done)

        run(long(body))

        assert seen == [1, 2, 1000]
        assert (row().done, row().total, row().note) == (1001, 1000, "more than all")

    def test_it_is_one_statement(self, long, updates):
        seen = []

        def body(self):
            before = len(updates())
            self.progress(1)
            seen.extend(updates()[before:])

        run(long(body))

        (statement,) = seen
        assert statement.startswith("UPDATE")

    def test_a_long_note_is_cut(self, long):
        def body(self):
            self.progress(1, note="x" * 1000)

        run(long(body))

        assert row().note == "x" * 255

    def test_inside_a_transaction_nothing_is_written_until_its_end(self, long, clock, updates):
        """The row would be locked, and whoever cancels the task would wait for it."""
        seen = []

        def body(self):
            before = len(updates())
            with transaction.atomic():
                self.progress(1)
                clock.seconds += 10
                self.progress(2)
                seen.append(len(updates()) - before)

        run(long(body))

        assert seen == [0]
        assert row().done == 2

    def test_a_deleted_row_is_made_again(self, long):
        def body(self):
            TrackedTask.objects.all().delete()
            self.progress(3, 4)

        run(long(body))

        assert (row().state, row().done) == ("succeeded", 3)

    def test_where_results_are_on_it_is_the_state(self, long, memory_app):
        seen = []

        def body(self):
            self.request.ignore_result = False
            self.progress(1, 2, note="half")
            seen.append(memory_app.backend.get_task_meta("id-1", cache=False))

        run(long(body, ignore_result=False))

        assert (seen[0]["status"], seen[0]["result"]) == (
            "PROGRESS",
            {"done": 1, "total": 2, "note": "half"},
        )


class TestCheckpoint:
    @pytest.mark.parametrize("value", [0, "page 7", [1, 2.5, None], {"table": "orders", "id": 5}, False])
    def test_it_comes_back_as_it_is(self, long, value):
        seen = []

        def body(self):
            seen.append(self.resume(default="none yet"))
            self.checkpoint(value)
            seen.append(self.resume(default="none yet"))
            raise PartnerError

        task = long(body)
        for _ in range(2):
            with pytest.raises(PartnerError):
                run(task)

        assert seen == ["none yet", value, value, value]

    @pytest.mark.parametrize("value", [(1, 2), {1: "a"}, {1, 2}, b"x", float("nan"), object()])
    def test_what_would_not_come_back_is_refused(self, long, value, recorded_failures):
        def body(self):
            self.checkpoint(value)

        with pytest.raises(ArgumentNotJSONError, match="the checkpoint is not JSON-native"):
            run(long(body))

        assert row().checkpoint is None

    def test_a_large_one_is_refused(self, long, recorded_failures):
        def body(self):
            self.checkpoint("x" * 300_000)

        with pytest.raises(ArgumentTooLargeError, match="Store a position"):
            run(long(body))

    def test_inside_a_transaction_it_commits_or_rolls_back_with_it(self, long):
        seen = []

        def body(self):
            self.checkpoint(1)
            with suppress(PartnerError), transaction.atomic():
                self.checkpoint(2)
                raise PartnerError
            seen.append(row().checkpoint)
            with transaction.atomic():
                self.checkpoint(3)
            seen.append(row().checkpoint)

        run(long(body))

        assert seen == [1, 3]

    def test_every_so_many_seconds_and_the_kept_one_at_the_end(self, long, clock, updates, recorded_failures):
        seen = []

        def body(self):
            before = len(updates())
            for number in range(10):
                self.checkpoint(number, every_seconds=5)
            seen.append((len(updates()) - before, row().checkpoint, self.resume()))
            clock.seconds += 5
            self.checkpoint(10, every_seconds=5)
            seen.append((len(updates()) - before, row().checkpoint, self.resume()))
            self.checkpoint(11, every_seconds=5)
            raise PartnerError

        with pytest.raises(PartnerError):
            run(long(body))

        assert seen == [(1, 0, 9), (2, 10, 10)]
        assert row().checkpoint == 11

    def test_none_forgets_it(self, long):
        seen = []

        def body(self):
            self.checkpoint(5)
            self.checkpoint(None)
            seen.append(self.resume(default="from the beginning"))

        run(long(body))

        assert seen == ["from the beginning"]


class TestEnd:
    @pytest.mark.parametrize(
        ("error", "raised", "state", "is_finished"),
        [
            (PartnerError("boom"), PartnerError, "failed", True),
            (Cancel("enough"), Ignore, "cancelled", True),
            (Snooze(5), Retry, "waiting", False),
            (Reject("no", requeue=True), Reject, "waiting", False),
            (Reject("no", requeue=False), Reject, "failed", True),
        ],
    )
    def test_the_row_says_how(self, long, recorded_failures, error, raised, state, is_finished):
        def body(self):
            self.checkpoint(4)
            raise error

        with pytest.raises(raised):
            run(long(body), headers={"first_published_at": now()})

        assert (row().state, row().checkpoint) == (state, 4)
        assert (row().finished_at is not None) is is_finished

    def test_a_success_forgets_the_checkpoint(self, long):
        def body(self):
            self.checkpoint(4)

        run(long(body))

        assert (row().state, row().checkpoint) == ("succeeded", None)

    def test_a_run_that_was_overtaken_changes_nothing(self, long, clock, recorded_failures):
        """Another run of the task has begun, and has left a checkpoint."""

        def body(self):
            self.checkpoint(1)
            tracked_rows.begin("id-1", at=clock.moment.replace(hour=20), name="n", queue="q", worker="w2")
            tracked_rows.save("id-1", {"checkpoint": 7})
            self.checkpoint(2)

        with pytest.raises(Ignore, match="has begun again elsewhere"):
            run(long(body))

        assert (row().state, row().checkpoint, row().worker) == ("running", 7, "w2")
        assert recorded_failures == []

    def test_a_run_that_did_not_begin_leaves_no_row(self, long):
        """Parked by a breaker, or in the way of another one."""
        task = long(do_nothing)

        def park(*_):
            raise Snooze(5)

        type(task).run_layers = tuple(park if layer is record_start else layer for layer in task.run_layers)

        with pytest.raises(Retry):
            run(task, headers={"first_published_at": now()})

        assert not TrackedTask.objects.exists()


class TestOutsideOfAWorker:
    def test_called_as_a_function_nothing_is_reported(self, long):
        def body(self):
            self.progress(1, 2)
            self.checkpoint(3)
            return self.resume(default="from the beginning"), self.is_cancelled()

        assert long(body)() == ("from the beginning", False)
        assert not TrackedTask.objects.exists()

    def test_applied_in_place_nothing_is_reported(self, long):
        def body(self):
            self.progress(1, 2)
            self.checkpoint(3)
            return self.resume(default="from the beginning")

        assert long(body).apply().get() == "from the beginning"
        assert not TrackedTask.objects.exists()


class TestCarryingOver:
    @pytest.fixture
    def task(self, long):
        return long(do_nothing)

    @pytest.fixture
    def _left(self, clock):
        tracked_rows.begin("old", at=clock.moment, name="n", queue="q", worker="w")
        tracked_rows.save("old", {"checkpoint": [3], "done": 3, "total": 9, "state": "failed"})

    @pytest.mark.usefixtures("_left")
    def test_a_replay_begins_at_the_checkpoint(self, task):
        assert carry_checkpoint(task, from_id="old", to_id="new")

        new = TrackedTask.objects.get(pk="new")
        assert (new.checkpoint, new.state, new.done, new.total) == ([3], "waiting", 3, 9)

    @pytest.mark.usefixtures("_left")
    def test_a_replay_that_is_sent_again_keeps_what_it_has(self, task):
        carry_checkpoint(task, from_id="old", to_id="new")
        tracked_rows.save("new", {"checkpoint": [8]})

        assert not carry_checkpoint(task, from_id="old", to_id="new")

        assert TrackedTask.objects.get(pk="new").checkpoint == [8]

    @pytest.mark.usefixtures("_left")
    def test_a_plain_task_and_an_unknown_one_have_nothing_to_carry(self, declare):
        assert not carry_checkpoint(declare(do_nothing), from_id="old", to_id="new")
        assert not carry_checkpoint(None, from_id="old", to_id="new")

    def test_without_a_checkpoint_there_is_nothing_to_carry(self, task):
        assert not carry_checkpoint(task, from_id="nobody", to_id="new")
        assert not TrackedTask.objects.exists()


def test_a_plain_task_is_not_made_long_by_an_option(declare):
    with pytest.raises(TaskDefinitionError, match="unknown option 'tracked'"):
        declare(do_nothing, tracked=True)


class TestHook:
    """`on_cancelled`, of every task."""

    @pytest.fixture
    def calls(self):
        return []

    @pytest.fixture
    def task(self, declare, calls):
        def note(task, *given):
            calls.append((task.name, *given))

        def body(*args, **kwargs):
            raise Cancel("enough")

        return declare(body, on_cancelled=note)

    def test_it_is_called_once_with_the_reason_and_the_arguments(self, task, calls):
        with pytest.raises(Ignore):
            run(task, 5, colour="red")

        assert calls == [("outcome.probe", "enough", "id-1", (5,), {"colour": "red"})]

    def test_it_is_called_for_a_task_that_does_not_start(self, declare, calls):
        def note(task, *given):
            calls.append(given[0])

        ran = []

        def body(argument):
            ran.append(argument)

        task = declare(body, on_cancelled=note)
        mark = {MARK: {"by": "ann", "reason": "why"}}
        task.push_request(id="id-1", called_directly=False, is_eager=False, ignore_result=True, **mark)

        with pytest.raises(Ignore, match="cancelled by ann: why"):
            task("argument")

        assert (calls, ran) == (["cancelled by ann: why"], [])

    def test_its_own_failure_changes_nothing(self, declare, recorded_failures):
        def fail_to_note(*_):
            raise PartnerError

        def body():
            raise Cancel("enough")

        with pytest.raises(Ignore, match="enough"):
            run(declare(body, on_cancelled=fail_to_note))

        assert recorded_failures == []
