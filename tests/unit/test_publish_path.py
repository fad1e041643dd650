"""From `.delay()` to the message: what is stamped on it, when it goes out, and how long that may take."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from operator import attrgetter

import pytest
from celery import group
from celery.exceptions import QueueNotFound
from kombu.exceptions import EncodeError, OperationalError
from redis.exceptions import AuthenticationError, BusyLoadingError, ResponseError

from taskyard.correlation import correlated
from taskyard.errors import (
    ArgumentNotJSONError,
    ArgumentTooLargeError,
    PublishError,
    PublishTimeoutError,
    UnknownQueueError,
)
from taskyard.masking import MASK
from taskyard.tasks.publish import publish_within_budget, stamp_headers
from taskyard.transport.deadline import remaining_seconds


@pytest.fixture
def probe(memory_app):
    @memory_app.task(name="publish.probe")
    def probe(*args, **kwargs):
        """Does nothing."""

    return probe


class TestHeaders:
    """What every message carries."""

    def test_times_and_correlation_id(self, probe, take_messages, clock):
        result = probe.delay(1)

        (message,) = take_messages()
        assert message.headers["published_at"] == clock.moment.timestamp()
        assert message.headers["first_published_at"] == clock.moment.timestamp()
        assert message.headers["correlation_id"] == result.id

    def test_the_correlation_id_of_the_surroundings_is_carried(self, probe, take_messages):
        with correlated("request-7"):
            probe.delay()

        assert take_messages()[0].headers["correlation_id"] == "request-7"

    def test_a_stated_correlation_id_wins(self, probe, take_messages):
        with correlated("request-7"):
            probe.apply_async(headers={"correlation_id": "import-9"})

        assert take_messages()[0].headers["correlation_id"] == "import-9"

    def test_other_headers_are_kept(self, probe, take_messages):
        probe.apply_async(headers={"tenant": "acme"})

        assert take_messages()[0].headers["tenant"] == "acme"

    def test_the_first_publish_is_remembered_over_a_retry(self, clock):
        first = stamp_headers(None, task_id="t", clock=clock)
        clock.moment += timedelta(minutes=5)

        second = stamp_headers(first, task_id="t", clock=clock)

        assert second["first_published_at"] == first["published_at"]
        assert second["published_at"] == first["published_at"] + 300
        assert second["correlation_id"] == first["correlation_id"]

    def test_the_given_headers_are_not_changed(self, probe):
        headers = {"tenant": "acme"}

        probe.apply_async(headers=headers)

        assert headers == {"tenant": "acme"}

    def test_marked_arguments_are_masked_in_every_representation(self, memory_app, take_messages):
        @memory_app.task(name="publish.redacted", redact=("card",))
        def redacted(order, card): ...

        redacted.delay(7, "4111")
        redacted.delay(7, card="4111")
        memory_app.send_task("publish.redacted", (7, "4111"))

        by_place, by_name, by_task_name = take_messages()
        assert by_place.headers["argsrepr"] == f"(7, '{MASK}')"
        assert by_name.headers["kwargsrepr"] == f"{{'card': '{MASK}'}}"
        assert by_task_name.headers["argsrepr"] == f"(7, '{MASK}')"
        assert "4111" not in f"{by_place.headers} {by_name.headers} {by_task_name.headers}"
        assert by_place.payload[0] == [7, "4111"]


class TestPriorityAndQueue:
    """Where a message goes, and how urgent it is."""

    def test_a_message_is_of_normal_priority_unless_told_otherwise(self, probe, take_messages):
        probe.delay()
        probe.apply_async(priority=0)
        probe.apply_async(priority=9)

        assert [message.properties["priority"] for message in take_messages()] == [5, 0, 9]

    def test_the_priority_of_the_task_counts_but_that_of_the_call_wins(self, memory_app, take_messages):
        @memory_app.task(name="publish.least", priority=0)
        def least(): ...

        least.delay()
        least.apply_async(priority=7)
        memory_app.send_task("publish.least")

        assert [message.properties["priority"] for message in take_messages()] == [0, 7, 0]

    def test_a_call_may_name_another_queue(self, probe, take_messages):
        probe.apply_async(queue="bulk")

        assert len(take_messages("bulk")) == 1
        assert take_messages() == []

    def test_a_task_goes_to_its_own_queue(self, memory_app, take_messages):
        @memory_app.task(name="publish.urgent", queue="critical")
        def urgent(): ...

        urgent.delay()
        memory_app.send_task("publish.urgent")

        assert len(take_messages("critical")) == 2

    def test_a_call_that_names_an_unknown_queue_is_refused(self, probe):
        with pytest.raises(UnknownQueueError) as caught:
            probe.apply_async(queue="blk")

        assert str(caught.value) == (
            "The call of task 'publish.probe' names the queue 'blk', which does not exist. "
            "Did you mean 'bulk'? The queues are: critical, high, default, low, bulk."
        )

    def test_a_task_that_only_the_worker_knows_can_be_sent(self, memory_app, take_messages):
        memory_app.send_task("elsewhere.do_it", (1,), {"a": 2})

        (message,) = take_messages()
        assert message.headers["task"] == "elsewhere.do_it"
        assert message.payload[:2] == [[1], {"a": 2}]


class TestGuard:
    """Wrong arguments never leave the caller."""

    def test_nothing_is_published(self, make_app, take_messages):
        app = make_app(ARGUMENT_LIMIT_BYTES=100, ARGUMENT_WARN_BYTES=100)

        with pytest.raises(ArgumentNotJSONError):
            app.send_task("publish.any", ({1, 2},))
        with pytest.raises(ArgumentTooLargeError):
            app.send_task("publish.any", ("x" * 200,))

        assert take_messages() == []

    def test_each_part_of_a_canvas_is_guarded(self, probe, take_messages):
        with pytest.raises(ArgumentNotJSONError):
            group(probe.si(1), probe.si(object())).apply_async()


class TestResults:
    """What the caller gets back."""

    def test_the_result_has_the_id_of_the_message(self, probe, take_messages):
        result = probe.delay()

        assert result.id == take_messages()[0].headers["id"]
        assert result.ignored

    def test_a_stated_id_is_used(self, probe, take_messages):
        assert probe.apply_async(task_id="mine").id == "mine"
        assert take_messages()[0].headers["id"] == "mine"

    def test_results_are_on_where_the_task_asks(self, memory_app):
        @memory_app.task(name="publish.asked", ignore_result=False)
        def asked(): ...

        assert not asked.delay().ignored


class TestBudget:
    """A publish ends in time, whatever the broker does."""

    def publish(self, send, budget_seconds=0.3):
        return publish_within_budget(send, budget_seconds=budget_seconds, task_name="a.b", task_id="1")

    def test_it_returns_what_the_publish_returns(self):
        assert self.publish(lambda: "result") == "result"

    def test_it_tries_again_within_the_budget(self):
        attempts = []

        def send():
            attempts.append(remaining_seconds())
            if len(attempts) < 3:
                raise OperationalError("connection refused")
            return "taken"

        assert self.publish(send, budget_seconds=5) == "taken"
        assert len(attempts) == 3
        assert attempts[0] > attempts[1] > attempts[2] > 0

    def test_it_ends_with_a_named_error_at_the_end_of_the_budget(self):
        attempts = []

        def send():
            attempts.append(1)
            raise OperationalError("Error 111 connecting to redis://:hunter2@h:6379. Connection refused.")

        started = time.monotonic()
        with pytest.raises(PublishTimeoutError) as caught:
            self.publish(send, budget_seconds=0.5)

        assert time.monotonic() - started <= 0.5
        assert len(attempts) >= 2
        assert str(caught.value) == (
            "Task a.b[1] was not published: the broker did not take it within 0.5 s "
            f"(Error 111 connecting to redis://:{MASK}@h:6379. Connection refused). Check the broker with "
            "`manage.py taskyard doctor`; the budget is PUBLISH_TIMEOUT_SECONDS."
        )
        assert isinstance(caught.value, OperationalError)

    @pytest.mark.parametrize(
        "answer",
        [
            ResponseError("OOM command not allowed when used memory > 'maxmemory'."),
            AuthenticationError("wrong"),
        ],
    )
    def test_a_refusal_is_final_at_once(self, answer):
        attempts = []

        def send():
            attempts.append(1)
            raise OperationalError(str(answer)) from answer

        with pytest.raises(PublishError) as caught:
            self.publish(send, budget_seconds=30)

        assert not isinstance(caught.value, PublishTimeoutError)
        assert attempts == [1]
        reason = str(answer).rstrip(".")
        assert str(caught.value) == (f"Task a.b[1] was not published: the broker refused it ({reason}).")

    def test_a_server_that_is_still_loading_is_asked_again(self):
        answers = [BusyLoadingError("loading"), None]

        def send():
            answer = answers.pop(0)
            if answer:
                raise OperationalError("loading") from answer
            return "taken"

        assert self.publish(send, budget_seconds=5) == "taken"

    @pytest.mark.parametrize("error", [EncodeError("x"), QueueNotFound("x"), TypeError("x"), KeyError("x")])
    def test_errors_of_the_call_pass_through_at_once(self, error):
        def send():
            raise error

        with pytest.raises(type(error)):
            self.publish(send, budget_seconds=30)

    def test_an_error_of_a_publish_within_is_not_wrapped_again(self):
        inner = PublishError("inner")

        def send():
            raise inner

        with pytest.raises(PublishError) as caught:
            self.publish(send, budget_seconds=30)

        assert caught.value is inner

    def test_the_deadline_is_gone_afterwards(self):
        self.publish(lambda: None)

        assert remaining_seconds() is None

    def test_a_closed_port_ends_within_the_budget(self, make_app, settings):
        settings.CELERY_BROKER_URL = "redis://127.0.0.1:1/0"
        settings.CELERY_BROKER_TRANSPORT = "taskyard.transport.redis:Transport"
        app = make_app(PUBLISH_TIMEOUT_SECONDS=0.5)

        started = time.monotonic()
        with pytest.raises(PublishTimeoutError, match=r"within 0\.5 s"):
            app.send_task("publish.any")

        assert time.monotonic() - started < 1

    @pytest.mark.parametrize("pool_of", [attrgetter("producer_pool"), attrgetter("pool")])
    def test_a_pool_that_is_used_up_ends_within_the_budget(self, make_app, settings, pool_of):
        settings.CELERY_BROKER_POOL_LIMIT = 1
        app = make_app(PUBLISH_TIMEOUT_SECONDS=0.4)

        with pool_of(app).acquire(block=False):
            started = time.monotonic()
            with pytest.raises(PublishTimeoutError, match="All 1 producer slots are in use"):
                app.send_task("publish.any")
            assert time.monotonic() - started < 1

        assert app.send_task("publish.any").id

    def test_the_budget_of_one_thread_is_not_that_of_another(self):
        seen = []

        def other():
            seen.append(remaining_seconds())

        def send():
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()

        self.publish(send)

        assert seen == [None]
