"""How a run ends: success, drop, or a final failure that is recorded before anything else."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from celery.exceptions import MaxRetriesExceededError, Reject, Retry

from taskyard import Fixed, Never, Snooze
from taskyard.correlation import current_correlation_id
from taskyard.errors import OutOfMemoryError
from taskyard.masking import MASK
from taskyard.tasks import failures
from tests.support.runs import (
    PartnerError,
    UnreadableError,
    add_one,
    do_nothing,
    fail,
    now,
    published_ago,
    raising,
    run,
)

pytestmark = pytest.mark.usefixtures("recorded_failures")


class TestSuccess:
    def test_the_result_is_returned(self, declare, recorded_failures, take_messages):
        assert run(declare(add_one), 1) == 2
        assert recorded_failures == []
        assert take_messages() == []

    def test_the_log_has_a_line_at_the_start_and_one_at_the_end(self, declare, events):
        run(declare(do_nothing, queue="high"), queue="high", headers={"published_at": now() - 2})

        started, succeeded = events()
        common = {
            "task": "outcome.probe",
            "task_id": "id-1",
            "queue": "high",
            "attempt": 1,
            "correlation_id": "corr-1",
        }
        assert started.items() >= (common | {"event": "task started", "level": "info"}).items()
        assert 2 <= started["wait_seconds"] < 10
        assert succeeded.items() >= (common | {"event": "task succeeded"}).items()
        assert 0 <= succeeded["duration_seconds"] < 5

    def test_a_message_of_a_stock_producer_has_no_waiting_time(self, declare, events):
        run(declare(do_nothing))

        assert events()[0]["wait_seconds"] is None

    def test_the_correlation_id_of_the_message_is_that_of_the_run(self, declare):
        def tell():
            return current_correlation_id()

        assert run(declare(tell)) == "corr-1"
        assert current_correlation_id() is None

    def test_the_log_shows_no_arguments(self, declare, events, caplog):
        def charge(card):
            """Takes a secret."""

        run(declare(charge, redact=("card",)), "4111")

        assert "4111" not in caplog.text
        assert "4111" not in repr(events())

    def test_a_direct_call_is_a_plain_call(self, declare, events):
        task = declare(add_one)

        assert task(1) == 2
        assert events() == []


class TestFinalFailure:
    def test_exhausted_retries_are_recorded_once_and_the_error_is_raised(self, declare, recorded_failures):
        def charge(order, card):
            fail()

        task = declare(charge, retry=Fixed(seconds=1, max_retries=5), queue="high", redact=("card",))
        headers = {"tenant": "acme"}

        with pytest.raises(PartnerError, match="boom"):
            run(task, 7, "4111", queue="high", priority=8, retries=5, headers=headers)

        (failure,) = recorded_failures
        assert failure.reason == "retries_exhausted"
        assert (failure.task_name, failure.task_id, failure.queue) == ("outcome.probe", "id-1", "high")
        assert (failure.priority, failure.retries, failure.correlation_id) == (8, 5, "corr-1")
        assert failure.args == [7, MASK]
        assert failure.headers == headers
        assert failure.error == "PartnerError: boom"
        assert failure.traceback.rstrip().endswith("PartnerError: boom")

    def test_the_traceback_begins_in_the_task(self, declare, recorded_failures):
        with pytest.raises(PartnerError):
            run(declare(retry=Never()))

        assert "tasks/run.py" not in recorded_failures[0].traceback
        assert recorded_failures[0].traceback.splitlines()[1].endswith("in fail")

    def test_what_is_not_worth_a_retry_fails_at_once(self, declare, recorded_failures, take_messages):
        with pytest.raises(PartnerError):
            run(declare(retry=Fixed(seconds=1, on=(OSError,))))

        assert [failure.reason for failure in recorded_failures] == ["not_retryable"]
        assert take_messages() == []

    def test_the_log_tells_the_next_run_in_short_numbers(self, declare, events):
        with pytest.raises(Retry):
            run(declare(raising(Snooze(0.18059337572644485))))

        assert events()[-1]["next_run_in_seconds"] == 0.181

    def test_without_any_retry_none_is_exhausted(self, declare, recorded_failures):
        with pytest.raises(PartnerError):
            run(declare(retry=Never()))

        assert [failure.reason for failure in recorded_failures] == ["not_retryable"]

    def test_the_age_counts_from_the_first_publish(self, declare, recorded_failures):
        task = declare(retry=Fixed(seconds=1, max_retries=None, max_age_seconds=60))

        with pytest.raises(Retry):
            run(task, headers=published_ago(50), retries=1000)
        with pytest.raises(PartnerError):
            run(task, headers=published_ago(60), retries=3)

        assert [failure.reason for failure in recorded_failures] == ["age_exceeded"]

    @pytest.mark.parametrize("stamp", [None, "yesterday", [1], {}, float("nan")])
    def test_a_first_publish_that_is_no_time_does_not_break_the_run(self, declare, stamp):
        task = declare(retry=Fixed(seconds=1, max_age_seconds=60))

        with pytest.raises(Retry):
            run(task, headers={"first_published_at": stamp, "published_at": stamp})

    def test_the_log_says_that_it_failed_and_where(self, declare, events):
        with pytest.raises(PartnerError):
            run(declare(retry=Never()), retries=2)

        line = events()[-1]
        assert (line["event"], line["level"]) == ("task failed", "error")
        assert (line["error"], line["attempt"]) == ("PartnerError", 3)
        assert line["exc_info"][1].args == ("boom",)

    def test_celerys_error_of_too_many_retries_is_final(self, declare, recorded_failures):
        with pytest.raises(MaxRetriesExceededError):
            run(declare(raising(MaxRetriesExceededError("enough")), retry=Fixed(seconds=1)))

        assert [failure.reason for failure in recorded_failures] == ["retries_exhausted"]

    def test_an_error_without_a_readable_text_is_recorded_too(self, declare, recorded_failures):
        with pytest.raises(UnreadableError):
            run(declare(raising(UnreadableError()), retry=Never()))

        assert recorded_failures[0].error == "UnreadableError: (its text cannot be shown: RuntimeError)"

    def test_an_error_without_a_readable_text_is_retried_too(self, declare, events):
        with pytest.raises(Retry):
            run(declare(raising(UnreadableError()), retry=Fixed(seconds=1)))

        assert events()[-1]["event"] == "task retried"

    def test_running_out_of_memory_is_an_error_that_celery_does_not_take_for_a_lost_process(
        self, declare, recorded_failures
    ):
        with pytest.raises(OutOfMemoryError):
            run(declare(raising(MemoryError("64 GiB")), retry=Never()))

        assert recorded_failures[0].error == "MemoryError: 64 GiB"

    def test_running_out_of_memory_is_retried_first(self, declare):
        with pytest.raises(Retry):
            run(declare(raising(MemoryError()), retry=Fixed(seconds=1)))


class TestDrop:
    def test_exhausted_retries_are_dropped_where_the_task_says_so(self, declare, recorded_failures, events):
        with pytest.raises(PartnerError):
            run(declare(retry=Never(), on_exhausted="drop"))

        assert recorded_failures == []
        line = next(line for line in events() if line["event"] == "task dropped")
        assert (line["level"], line["reason"], line["error"]) == (
            "warning",
            "not_retryable",
            "PartnerError",
        )

    def test_an_error_that_is_not_retried_is_not_dropped(self, declare, recorded_failures):
        # dropping is for what was tried: a bug is not a bad day of the mail server
        with pytest.raises(PartnerError):
            run(declare(retry=Fixed(seconds=1, on=(OSError,)), on_exhausted="drop"))

        assert [failure.reason for failure in recorded_failures] == ["not_retryable"]


class TestStoreDown:
    @pytest.fixture
    def store_down(self, recorded_failures):
        def refuse(failure):
            raise ConnectionError("the database is away")

        failures.set_sink(refuse)

    @pytest.mark.parametrize("body", [fail, raising(MemoryError()), raising(Reject("bad", requeue=False))])
    def test_the_task_runs_again_later_with_the_same_attempts(self, declare, store_down, take_messages, body):
        task = declare(body, retry=Fixed(seconds=1, max_retries=2), queue="high")

        with pytest.raises(Retry) as caught:
            run(task, 7, queue="high", retries=2, headers={"tenant": "acme"})

        (message,) = take_messages("high")
        assert message.payload[0] == [7]
        assert message.headers["retries"] == 2
        assert message.headers["tenant"] == "acme"
        assert message.headers["eta"] is not None
        assert caught.value.when > 0

    def test_the_log_says_so(self, declare, store_down, events):
        with pytest.raises(Retry):
            run(declare(retry=Never()))

        lines = events()
        assert [line["event"] for line in lines] == [
            "task started",
            "task snoozed",
        ]
        assert lines[-1]["reason"] == "the dead letter store is away"

    def test_with_the_broker_away_too_the_message_is_put_back(self, make_app, settings, store_down):
        settings.CELERY_BROKER_URL = "redis://127.0.0.1:1/0"
        settings.CELERY_BROKER_TRANSPORT = "taskyard.transport.redis:Transport"
        app = make_app(PUBLISH_TIMEOUT_SECONDS=0.2)
        app.task(name="outcome.probe", retry=Never())(fail)

        with pytest.raises(Reject) as caught:
            run(app.tasks["outcome.probe"])

        assert caught.value.requeue

    def test_a_retry_does_not_need_the_store(self, declare, store_down):
        with pytest.raises(Retry):
            run(declare(retry=Fixed(seconds=1)))


class TestThroughCelery:
    """The same through Celery's own tracer, eagerly."""

    def test_success(self, declare):
        assert declare(add_one).apply((1,)).result == 2

    def test_eager_retries_end_with_the_policy(self, declare, recorded_failures):
        runs = []

        def body():
            runs.append(1)
            raise PartnerError("boom")

        result = declare(body, retry=Fixed(seconds=0, max_retries=2)).apply()

        assert len(runs) == 3
        assert result.state == "FAILURE"
        assert len(recorded_failures) == 1

    def test_an_eager_snooze_is_a_failure_and_not_a_run_without_end(self, declare, recorded_failures):
        runs = []

        def body():
            runs.append(1)
            raise Snooze(30, "not yet")

        result = declare(body, retry=Fixed(seconds=0, max_retries=2)).apply()

        assert len(runs) == 1
        assert str(result.result) == (
            "Task 'outcome.probe' is snoozed for 30 s: not yet, and an eager run cannot wait. Publish it to "
            "a worker, or call it as a function: then Snooze reaches the caller."
        )
        assert [failure.reason for failure in recorded_failures] == ["not_retryable"]

    def test_a_result_that_is_not_json_is_a_failure_that_is_kept(self, declare, recorded_failures):
        task = declare(do_nothing)
        error = ValueError("the result is not JSON")
        task.push_request(id="id-1", called_directly=False, headers={}, delivery_info={})

        try:
            task.on_failure(error, "id-1", (), {}, SimpleNamespace())
        finally:
            task.pop_request()

        assert [(failure.reason, failure.error) for failure in recorded_failures] == [
            ("not_retryable", "ValueError: the result is not JSON")
        ]
