"""A publish inside a transaction goes out after the commit, as it was called, and never after a rollback."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction

from taskyard.correlation import correlated
from taskyard.errors import ArgumentNotJSONError, PublishTimeoutError
from taskyard.tasks.publish import published_now


@pytest.fixture
def probe(memory_app):
    @memory_app.task(name="publish.probe")
    def probe(*args, **kwargs):
        """Does nothing."""

    return probe


def publish_and_roll_back(task, argument):
    with transaction.atomic():
        task.delay(argument)
        transaction.set_rollback(True)


@pytest.mark.django_db(transaction=True)
class TestInATransaction:
    """A publish waits for the commit: the worker must find the rows."""

    def test_it_goes_out_after_the_commit_with_the_id_that_the_caller_has(self, probe, take_messages):
        with transaction.atomic():
            result = probe.delay(1)
            assert take_messages() == []

        (message,) = take_messages()
        assert message.headers["id"] == result.id
        assert message.payload[0] == [1]
        assert result.ignored

    def test_it_waits_for_the_outermost_transaction(self, probe, take_messages):
        with transaction.atomic():
            with transaction.atomic():
                probe.delay()
            assert take_messages() == []

        assert len(take_messages()) == 1

    def test_a_rollback_takes_it_back(self, probe, take_messages):
        publish_and_roll_back(probe, 1)

        assert take_messages() == []

    def test_a_rolled_back_savepoint_takes_it_back_too(self, probe, take_messages):
        with transaction.atomic():
            publish_and_roll_back(probe, "lost")
            probe.delay("kept")

        assert [message.payload[0] for message in take_messages()] == [["kept"]]

    def test_the_arguments_are_those_of_the_call(self, probe, take_messages):
        rows, options = [1], {"a": [1]}

        with transaction.atomic():
            probe.delay(rows, options=options)
            rows.append(2)
            options["a"].append(2)

        assert take_messages()[0].payload[:2] == [[[1]], {"options": {"a": [1]}}]

    def test_the_headers_are_those_of_the_call(self, probe, take_messages, clock):
        published = clock.moment.timestamp()

        with transaction.atomic(), correlated("request-7"):
            probe.apply_async(priority=9)
            clock.moment += timedelta(seconds=30)

        (message,) = take_messages()
        assert message.headers["correlation_id"] == "request-7"
        assert message.headers["first_published_at"] == published
        assert message.properties["priority"] == 9

    def test_wrong_arguments_are_refused_at_the_call(self, probe):
        with transaction.atomic(), pytest.raises(ArgumentNotJSONError):
            probe.delay(object())

    def test_a_call_may_go_out_at_once(self, probe, take_messages):
        with transaction.atomic():
            probe.apply_async(on_commit=False)
            assert len(take_messages()) == 1

        assert take_messages() == []

    def test_a_task_may_always_go_out_at_once(self, memory_app, take_messages):
        @memory_app.task(name="publish.at_once", on_commit=False)
        def at_once(): ...

        with transaction.atomic():
            at_once.delay()
            memory_app.send_task("publish.at_once")
            assert len(take_messages()) == 2

    def test_a_block_may_publish_at_once(self, probe, take_messages):
        with transaction.atomic():
            with published_now():
                probe.delay("now")
            assert [message.payload[0] for message in take_messages()] == [["now"]]
            probe.delay("later")
            assert take_messages() == []

        assert [message.payload[0] for message in take_messages()] == [["later"]]

    def test_a_failure_after_the_commit_is_raised_and_logged(self, make_app, caplog, settings):
        settings.CELERY_BROKER_URL = "redis://127.0.0.1:1/0"
        settings.CELERY_BROKER_TRANSPORT = "taskyard.transport.redis:Transport"
        app = make_app(PUBLISH_TIMEOUT_SECONDS=0.2)

        with pytest.raises(PublishTimeoutError), transaction.atomic():
            app.send_task("publish.any")

        assert "The transaction is committed, but its task is not published" in caplog.text
