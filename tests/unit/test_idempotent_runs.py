"""One run a key: what a run, its retry and a call after it find, and what they leave."""

from __future__ import annotations

import datetime
import decimal
import uuid

import pytest
from celery.exceptions import Ignore, Reject, Retry

from taskyard import Cancel, Fixed, IdempotentTask, Never, Snooze
from taskyard.errors import ArgumentError
from tests.support.idempotent_fixtures import KEY, raising, returning
from tests.support.runs import PartnerError, run


class TestSuccess:
    def test_the_effect_happens_once_and_a_duplicate_gets_the_first_result(self, counting):
        task = counting()

        results = [run(task, 7, task_id=f"id-{number}") for number in range(3)]

        assert results == [{"number": 1}] * 3
        assert counting.effects == [7]

    def test_another_key_is_another_effect(self, counting):
        task = counting()

        assert [run(task, 7), run(task, 8), run(task, order_id=7)] == [
            {"number": 1},
            {"number": 2},
            {"number": 1},
        ]

    def test_the_same_message_again_gets_the_first_result_too(self, counting):
        task = counting()

        assert run(task, 7, task_id="id-1") == run(task, 7, task_id="id-1") == {"number": 1}

    @pytest.mark.parametrize(
        "result",
        [
            None, 0, "", False, "\x00\ud800", [1, {"a": None}], float("inf"),
            uuid.UUID(int=7), decimal.Decimal("1.50"), datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC),
        ],
    )  # fmt: skip
    def test_a_duplicate_gets_what_was_returned(self, idempotent, result):
        task = idempotent(returning(result))

        run(task, 7)
        again = run(task, 7, task_id="id-2")

        assert again == result
        assert type(again) is type(result)

    @pytest.mark.parametrize("result", [object(), "x" * 300_000], ids=["not JSON", "large"])
    def test_a_result_that_cannot_be_kept_is_none_for_a_duplicate(self, idempotent, events, result):
        task = idempotent(returning(result))

        assert run(task, 7) is result
        assert run(task, 7, task_id="id-2") is None
        assert any(line["event"].startswith("result not kept for duplicates") for line in events())

    def test_it_is_remembered_as_long_as_declared(self, counting, clock):
        task = counting(idempotency_ttl=datetime.timedelta(minutes=1))

        run(task, 7)
        clock.moment += datetime.timedelta(seconds=59)
        assert run(task, 7) == {"number": 1}
        clock.moment += datetime.timedelta(seconds=2)
        assert run(task, 7) == {"number": 2}

    def test_it_is_remembered_for_a_week_where_nothing_is_declared(self, counting, store):
        run(counting(), 7)

        assert store.read(KEY).expires_in_seconds == 7 * 24 * 3600

    def test_two_tasks_with_one_scope_share_their_keys(self, memory_app, counting, store):
        task = counting(idempotency_scope="order")

        @memory_app.task(
            name="outcome.other", base=IdempotentTask, idempotency_key="{pk}", idempotency_scope="order"
        )
        def other(pk):
            return "the other's"

        run(task, 7)

        assert run(memory_app.tasks["outcome.other"], 7) == {"number": 1}
        assert store.read("idempotent:order:7").state == "done"

    def test_the_store_knows_who_it_was(self, counting, store):
        run(counting(), 7, task_id="id-9")

        holder = store.read(KEY).holder
        assert (holder["task_id"], holder["task"]) == ("id-9", "outcome.probe")

    def test_a_marked_argument_shows_nowhere(self, idempotent, store, events, caplog):
        task = idempotent(returning(None), redact=("order_id",))

        run(task, "4111-1111")
        run(task, "4111-1111", task_id="id-2")

        (claim,) = store.find("")
        assert "4111" not in f"{claim}{events()}{caplog.text}"


class TestOtherEnds:
    @pytest.mark.parametrize(
        ("error", "ends_with"),
        [
            (PartnerError("boom"), Retry),
            (Snooze(5), Retry),
            (Cancel("no customer"), Ignore),
            (Reject("later", requeue=True), Reject),
            (Retry(), Retry),
            (SystemExit(1), SystemExit),
        ],
        ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
    )
    def test_the_key_is_free_for_the_next_run(self, idempotent, store, error, ends_with):
        task = idempotent(raising(error), retry=Fixed(seconds=1))

        with pytest.raises(ends_with):
            run(task, 7)

        assert store.read(KEY) is None

    def test_a_retry_runs_and_its_result_counts(self, idempotent):
        runs = []

        def body(self, order_id):
            runs.append(order_id)
            if len(runs) == 1:
                raise PartnerError("not yet")
            return "paid"

        task = idempotent(body, retry=Fixed(seconds=1))

        with pytest.raises(Retry):
            run(task, 7)
        assert run(task, 7, retries=1) == "paid"
        assert run(task, 7, task_id="id-2") == "paid"
        assert len(runs) == 2

    def test_a_final_failure_frees_the_key_for_its_replay(self, idempotent, store, recorded_failures):
        with pytest.raises(PartnerError):
            run(idempotent(raising(PartnerError("boom")), retry=Never()), 7)

        assert [failure.reason for failure in recorded_failures] == ["not_retryable"]
        assert store.read(KEY) is None

    def test_a_release_that_fails_changes_nothing_else(self, idempotent, store, events):
        task = idempotent(raising(PartnerError("boom")), retry=Fixed(seconds=1))
        store.go_away("release")

        with pytest.raises(Retry):
            run(task, 7)

        lines = [line["event"] for line in events()]
        assert "claim not released, the next run waits for the end of its lease" in lines
        assert lines[-1] == "task retried"


class TestUnusableKeys:
    @pytest.mark.parametrize("value", [None, ""])
    def test_a_call_without_a_key_is_a_final_failure(self, counting, recorded_failures, store, value):
        with pytest.raises(
            ArgumentError, match=r"has no key for this call: 'order_id' gives None or an empty"
        ):
            run(counting(retry=Fixed(seconds=1)), value)

        (failure,) = recorded_failures
        assert (failure.reason, failure.error_place) == ("not_retryable", "")
        assert len(failure.traceback.splitlines()) == 1
        assert counting.effects == store.calls == []
