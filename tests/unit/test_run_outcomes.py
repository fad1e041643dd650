"""How a run ends: success, retry, snooze, cancel, drop, or a final failure that is recorded first."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
from celery.exceptions import Ignore, MaxRetriesExceededError, Reject, Retry

from taskyard import Cancel, Exponential, Fixed, Never, Snooze
from taskyard.clock import SYSTEM_CLOCK
from taskyard.correlation import current_correlation_id
from taskyard.errors import OutOfMemoryError
from taskyard.masking import MASK
from taskyard.retry import no_jitter
from taskyard.tasks import failures


class PartnerError(Exception):
    """What the tasks of these tests fail with."""


class UnreadableError(Exception):
    """An error whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def raising(error):
    """A task body that raises."""

    def body(*args, **kwargs):
        raise error

    return body


def fail(*args, **kwargs):
    raise PartnerError("boom")


def do_nothing(*args, **kwargs):
    """Succeeds."""


def add_one(order):
    return order + 1


def now() -> float:
    return SYSTEM_CLOCK.now().timestamp()


@pytest.fixture
def declare(memory_app):
    """Declare a task with a body."""

    def declare(body=fail, **options):
        memory_app.task(name="outcome.probe", **options)(body)
        return memory_app.tasks["outcome.probe"]

    return declare


def run(task, *args, headers=None, retries=0, queue="default", priority=5, **kwargs):
    """Run a task as a worker does with a message that has come from a queue."""
    task.push_request(
        id="id-1",
        task=task.name,
        args=args,
        kwargs=kwargs,
        retries=retries,
        called_directly=False,
        is_eager=False,
        correlation_id="corr-1",
        headers=headers or {},
        delivery_info={"exchange": queue, "routing_key": queue, "priority": priority, "redelivered": False},
        ignore_result=True,
    )
    try:
        return task(*args, **kwargs)
    finally:
        task.pop_request()


def published_ago(seconds):
    return {"first_published_at": now() - seconds, "correlation_id": "corr-1"}


@pytest.fixture(autouse=True)
def _store(recorded_failures):
    return recorded_failures


@pytest.fixture
def events(caplog):
    """Return the lines that the kit has logged about runs."""
    caplog.set_level(logging.DEBUG, "taskyard")
    return lambda: [record.msg for record in caplog.records if record.name == "taskyard.task"]


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


class TestRetry:
    def test_the_policy_decides_the_countdown(self, declare, recorded_failures, take_messages):
        task = declare(retry=Exponential(base_seconds=3, spread=no_jitter, max_retries=5))

        with pytest.raises(Retry) as caught:
            run(task, retries=2)

        assert caught.value.when == 12
        assert isinstance(caught.value.exc, PartnerError)
        assert recorded_failures == []

    def test_the_retry_is_the_same_task_in_the_same_place_with_one_attempt_more(
        self, declare, take_messages, clock
    ):
        task = declare(retry=Fixed(seconds=0), queue="high")
        headers = {"correlation_id": "corr-1", "first_published_at": now() - 60, "tenant": "acme"}

        with pytest.raises(Retry):
            run(task, 7, queue="high", priority=8, headers=headers, order="x")

        (message,) = take_messages("high")
        assert message.payload[:2] == [[7], {"order": "x"}]
        assert message.headers["id"] == "id-1"
        assert message.headers["retries"] == 1
        assert message.headers["correlation_id"] == "corr-1"
        assert message.headers["first_published_at"] == headers["first_published_at"]
        assert message.headers["published_at"] == clock.moment.timestamp()
        assert message.headers["tenant"] == "acme"
        assert message.properties["priority"] == 8

    def test_celerys_own_bound_does_not_decide_again(self, declare, take_messages):
        task = declare(retry=Fixed(seconds=0, max_retries=50), max_retries=1)

        with pytest.raises(Retry):
            run(task, retries=49)

        assert take_messages()[0].headers["retries"] == 50

    def test_what_the_partner_asks_for_is_honoured(self, declare):
        error = PartnerError("busy")
        error.retry_after = 77

        with pytest.raises(Retry) as caught:
            run(declare(raising(error), retry=Fixed(seconds=1)))

        assert caught.value.when == 77

    def test_the_log_says_when_and_why(self, declare, events):
        with pytest.raises(Retry):
            run(declare(retry=Fixed(seconds=9)), retries=1)

        line = events()[-1]
        assert (line["event"], line["attempt"], line["level"]) == ("task retried", 2, "info")
        assert (line["reason"], line["next_run_in_seconds"]) == ("boom", 9)

    def test_a_broker_that_does_not_take_it_has_the_message_put_back(
        self, make_app, settings, recorded_failures
    ):
        settings.CELERY_BROKER_URL = "redis://127.0.0.1:1/0"
        settings.CELERY_BROKER_TRANSPORT = "taskyard.transport.redis:Transport"
        app = make_app(PUBLISH_TIMEOUT_SECONDS=0.2)
        app.task(name="outcome.probe", retry=Fixed(seconds=1))(fail)

        with pytest.raises(Reject) as caught:
            run(app.tasks["outcome.probe"])

        assert caught.value.requeue
        assert recorded_failures == []

    def test_arguments_that_can_no_longer_be_sent_end_in_a_dead_letter(self, declare, recorded_failures):
        # a stock producer may have sent what our guard refuses; put back, it would come again for ever
        with pytest.raises(PartnerError):
            run(declare(retry=Fixed(seconds=1)), {1: float("nan")})

        assert [failure.reason for failure in recorded_failures] == ["not_retryable"]


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
        assert "test_run_outcomes.py" in recorded_failures[0].traceback

    def test_what_is_not_worth_a_retry_fails_at_once(self, declare, recorded_failures, take_messages):
        with pytest.raises(PartnerError):
            run(declare(retry=Fixed(seconds=1, on=(OSError,))))

        assert [failure.reason for failure in recorded_failures] == ["not_retryable"]
        assert take_messages() == []

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
            "retries_exhausted",
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
            "dead letter not stored, the task runs again",
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


class TestSnooze:
    def test_it_uses_up_no_attempt(self, declare, recorded_failures, take_messages):
        task = declare(raising(Snooze(0, "not yet")), retry=Fixed(seconds=1, max_retries=2), queue="high")
        headers = {"correlation_id": "corr-1", "first_published_at": now() - 60}

        with pytest.raises(Retry):
            run(task, 7, queue="high", priority=8, retries=2, headers=headers)

        (message,) = take_messages("high")
        assert message.headers["retries"] == 2
        assert message.headers["id"] == "id-1"
        assert message.headers["correlation_id"] == "corr-1"
        assert message.headers["first_published_at"] == headers["first_published_at"]
        assert message.properties["priority"] == 8
        assert message.payload[0] == [7]
        assert recorded_failures == []

    def test_the_delay_is_kept(self, declare, take_messages):
        with pytest.raises(Retry) as caught:
            run(declare(raising(Snooze(90))))

        assert caught.value.when == 90
        assert take_messages()[0].headers["eta"] is not None

    def test_the_log_says_until_when_and_why(self, declare, events):
        with pytest.raises(Retry):
            run(declare(raising(Snooze(90, "partner is closed"))))

        line = events()[-1]
        assert (line["event"], line["level"]) == ("task snoozed", "info")
        assert (line["next_run_in_seconds"], line["reason"]) == (90, "snoozed for 90 s: partner is closed")

    def test_a_task_snoozed_for_too_long_ends_in_a_dead_letter(
        self, make_app, recorded_failures, take_messages
    ):
        app = make_app(SNOOZE_MAX_AGE_SECONDS=100)
        app.task(name="outcome.probe")(raising(Snooze(30)))
        task = app.tasks["outcome.probe"]

        with pytest.raises(Retry):
            run(task, headers=published_ago(60))
        with pytest.raises(Snooze):
            run(task, headers=published_ago(80))

        assert [failure.reason for failure in recorded_failures] == ["snoozed_too_long"]
        assert len(take_messages()) == 1

    def test_a_broker_that_does_not_take_it_has_the_message_put_back(self, make_app, settings):
        settings.CELERY_BROKER_URL = "redis://127.0.0.1:1/0"
        settings.CELERY_BROKER_TRANSPORT = "taskyard.transport.redis:Transport"
        app = make_app(PUBLISH_TIMEOUT_SECONDS=0.2)
        app.task(name="outcome.probe")(raising(Snooze(1)))

        with pytest.raises(Reject) as caught:
            run(app.tasks["outcome.probe"])

        assert caught.value.requeue

    @pytest.mark.parametrize("delay", [-1, -0.001])
    def test_it_cannot_go_back_in_time(self, delay):
        with pytest.raises(ValueError, match="Snooze cannot go back in time"):
            Snooze(delay)


class TestCancel:
    def test_it_never_runs_again_and_is_no_failure(self, declare, recorded_failures, take_messages, events):
        with pytest.raises(Ignore):
            run(declare(raising(Cancel("order is gone"))))

        assert recorded_failures == []
        assert take_messages() == []
        line = events()[-1]
        assert (line["event"], line["reason"], line["level"]) == ("task cancelled", "order is gone", "info")

    def test_where_results_are_on_the_state_says_so(self, memory_app):
        memory_app.task(name="outcome.kept", ignore_result=False)(raising(Cancel("gone")))
        task = memory_app.tasks["outcome.kept"]
        task.push_request(id="id-9", called_directly=False, is_eager=False, ignore_result=False, headers={})

        try:
            with pytest.raises(Ignore):
                task()
        finally:
            task.pop_request()

        assert task.AsyncResult("id-9").state == "REVOKED"


class TestCelerysOwnOutcomes:
    def test_a_retry_of_the_task_itself_passes_through(self, declare, recorded_failures, take_messages):
        def again(self):
            raise self.retry(countdown=5)

        with pytest.raises(Retry) as caught:
            run(declare(again, bind=True))

        assert caught.value.when == 5
        assert take_messages()[0].headers["retries"] == 1
        assert recorded_failures == []

    def test_ignore_passes_through(self, declare, recorded_failures):
        with pytest.raises(Ignore):
            run(declare(raising(Ignore())))

        assert recorded_failures == []

    def test_a_message_that_the_task_rejects_for_good_is_kept(self, declare, recorded_failures, events):
        with pytest.raises(Reject) as caught:
            run(declare(raising(Reject("bad", requeue=False))))

        assert not caught.value.requeue
        assert [failure.reason for failure in recorded_failures] == ["rejected"]
        assert events()[-1]["event"] == "task rejected"

    def test_one_that_it_puts_back_is_put_back(self, declare, recorded_failures, events):
        with pytest.raises(Reject) as caught:
            run(declare(raising(Reject("later", requeue=True))))

        assert caught.value.requeue
        assert recorded_failures == []
        assert events()[-1]["event"] == "task put back"


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
