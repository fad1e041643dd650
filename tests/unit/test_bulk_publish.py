"""`enqueue_many`: many calls in few round trips, and an exact account when the broker fails midway."""

from __future__ import annotations

import pytest
from django.db import transaction

from taskyard.errors import ArgumentError, ArgumentNotJSONError, BulkPublishError
from tests.support.batching_transport import Broker


@pytest.fixture(autouse=True)
def broker():
    Broker.reset()
    yield Broker
    Broker.reset()


def make_probe(make_app, settings, transport):
    settings.CELERY_BROKER_TRANSPORT = f"tests.support.batching_transport:{transport}"
    app = make_app(PUBLISH_TIMEOUT_SECONDS=0.3)

    @app.task(name="bulk.probe")
    def probe(*args, **kwargs):
        """Does nothing."""

    return app.tasks["bulk.probe"]


@pytest.fixture
def probe(make_app, settings):
    """A task on a broker that takes batches, as Redis does."""
    return make_probe(make_app, settings, "BatchingTransport")


@pytest.fixture
def immediate_probe(make_app, settings):
    """A task on a broker that takes one message at a time."""
    return make_probe(make_app, settings, "ImmediateTransport")


def ids_of(messages):
    return [message.headers["id"] for message in messages]


def test_every_call_becomes_a_message_in_order(probe, take_messages):
    result = probe.enqueue_many([(1, 2), {"a": 3}, ((4,), {"b": 5}), ()])

    messages = take_messages()
    assert [message.payload[:2] for message in messages] == [
        [[1, 2], {}],
        [[], {"a": 3}],
        [[4], {"b": 5}],
        [[], {}],
    ]
    assert ids_of(messages) == list(result.task_ids)
    assert len(result) == 4


def test_a_chunk_is_one_round_trip(probe, broker, take_messages):
    probe.enqueue_many(((n,) for n in range(25)), chunk_size=10)

    assert broker.flushes == [10, 10, 5]
    assert [message.payload[0] for message in take_messages()] == [[n] for n in range(25)]


def test_no_calls_are_no_messages(probe, take_messages):
    assert len(probe.enqueue_many([])) == 0
    assert take_messages() == []


def test_options_and_headers_are_those_of_single_calls(probe, take_messages, clock):
    probe.enqueue_many([(1,)], queue="bulk", priority=2)

    (message,) = take_messages("bulk")
    assert message.properties["priority"] == 2
    assert message.headers["published_at"] == clock.moment.timestamp()
    assert message.headers["correlation_id"]


@pytest.mark.parametrize("call", ["text", 5, [1, 2], None])
def test_what_is_no_call_is_refused_without_its_value(probe, call):
    with pytest.raises(ArgumentError) as caught:
        probe.enqueue_many([call])

    assert str(caught.value) == (
        f"enqueue_many was given a call of type {type(call).__name__}. "
        "Give a tuple of arguments, a dict of keyword arguments, or a pair (args, kwargs)."
    )


@pytest.mark.parametrize("size", [0, -1])
def test_an_impossible_chunk_size_is_refused(probe, size):
    with pytest.raises(ArgumentError, match=f"enqueue_many has chunk_size={size}"):
        probe.enqueue_many([], chunk_size=size)


def test_a_wrong_call_sends_nothing_of_its_chunk_and_counts_what_was_sent(probe, take_messages):
    with pytest.raises(ArgumentNotJSONError) as caught:
        probe.enqueue_many([(1,), (2,), (3,), (object(),), (5,)], chunk_size=2)

    assert [message.payload[0] for message in take_messages()] == [[1], [2]]
    assert caught.value.__notes__ == ["The first 2 calls are sent, in whole chunks of 2."]


class TestWhenTheBrokerFails:
    """Sent, unsent and uncertain are every id, once."""

    def fail(self, task, calls=6, chunk_size=2):
        made = []
        with pytest.raises(BulkPublishError) as caught:
            task.enqueue_many(((made.append(n) or n,) for n in range(calls)), chunk_size=chunk_size)
        error = caught.value
        ids = [*error.sent, *error.unsent, *error.uncertain]
        assert len(ids) == len(set(ids)) == len(made)
        return error

    def test_a_batch_that_fails_in_flight_is_uncertain(self, probe, broker, take_messages):
        broker.fail_flush = ConnectionError("Connection reset by peer to redis://:hunter2@h")

        error = self.fail(probe)

        assert (error.sent, error.unsent) == ((), ())
        assert len(error.uncertain) == 2
        assert str(error) == (
            "Bulk publish stopped: Connection reset by peer to redis://:******@h. 0 sent, 0 not sent, "
            "2 uncertain; see .sent, .unsent and .uncertain for the task ids."
        )

    def test_the_batches_before_it_are_sent(self, probe, broker, take_messages, memory_app):
        def calls():
            for n in range(6):
                if n == 5:
                    broker.fail_flush = ConnectionError("reset")
                yield (n,)

        with pytest.raises(BulkPublishError) as caught:
            probe.enqueue_many(calls(), chunk_size=2)

        assert list(caught.value.sent) == ids_of(take_messages())
        assert len(caught.value.sent) == 4
        assert len(caught.value.uncertain) == 2

    def test_a_batch_that_never_left_is_unsent(self, probe, broker, take_messages):
        broker.fail_publish_after = 1

        error = self.fail(probe)

        assert (error.sent, error.uncertain) == ((), ())
        assert len(error.unsent) == 2
        assert take_messages() == []

    def test_the_next_publish_starts_afresh(self, probe, broker, take_messages):
        broker.fail_publish_after = 1
        self.fail(probe)
        broker.reset()

        probe.enqueue_many([(1,), (2,)])
        probe.delay(3)

        assert [message.payload[0] for message in take_messages()] == [[1], [2], [3]]

    def test_without_batches_each_message_is_accounted_for(self, immediate_probe, broker, take_messages):
        broker.fail_publish_after = 3

        error = self.fail(immediate_probe, calls=6, chunk_size=6)

        broker.reset()
        assert list(error.sent) == ids_of(take_messages())
        assert (len(error.sent), len(error.uncertain), len(error.unsent)) == (3, 1, 2)

    def test_a_wrong_signature_is_not_taken_for_the_broker(self, probe, take_messages):
        @probe.app.task(name="bulk.strict")
        def strict(one): ...

        with pytest.raises(TypeError, match="positional argument"):
            strict.enqueue_many([(1,), (1, 2)])

        assert take_messages() == []


@pytest.mark.django_db(transaction=True)
class TestInATransaction:
    """The same promise as for a single call."""

    def test_everything_waits_for_the_commit(self, probe, take_messages):
        rows = [[1], [2]]

        with transaction.atomic():
            result = probe.enqueue_many(((row,) for row in rows), chunk_size=1)
            rows[0].append("changed")
            assert take_messages() == []

        messages = take_messages()
        assert ids_of(messages) == list(result.task_ids)
        assert [message.payload[0] for message in messages] == [[[1]], [[2]]]

    def test_a_rollback_takes_it_back(self, probe, take_messages):
        with transaction.atomic():
            probe.enqueue_many([(1,)])
            transaction.set_rollback(True)

        assert take_messages() == []

    def test_it_may_go_out_at_once(self, probe, take_messages):
        with transaction.atomic():
            probe.enqueue_many([(1,)], on_commit=False)
            assert len(take_messages()) == 1

    def test_wrong_arguments_are_refused_at_the_call(self, probe):
        with transaction.atomic(), pytest.raises(ArgumentNotJSONError):
            probe.enqueue_many([(object(),)])
