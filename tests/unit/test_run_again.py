"""How a run ends without success or failure: retry, snooze, cancel, and outcomes of Celery itself."""

from __future__ import annotations

import pytest
from celery.exceptions import Ignore, Reject, Retry

from taskyard import Cancel, Exponential, Fixed, Snooze
from taskyard.retry import no_jitter
from tests.support.runs import (
    PartnerError,
    fail,
    now,
    published_ago,
    raising,
    run,
)

pytestmark = pytest.mark.usefixtures("recorded_failures")


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
        task = declare(retry=Fixed(seconds=0, max_retries=50))
        assert task.max_retries == 3

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
