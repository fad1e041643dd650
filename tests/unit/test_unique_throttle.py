"""Throttled calls: the first of equal ones is published, whatever its publisher or the state store does."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from celery.beat import Scheduler
from celery.exceptions import Retry
from kombu.exceptions import SerializerNotInstalled

from taskyard import Fixed, Snooze
from taskyard.errors import PublishError
from tests.support.memory_state import MemoryStore
from tests.support.runs import PartnerError, do_nothing, run_message
from tests.support.waiting import wait_until

KEY = "unique:outcome.probe:7"


class TestThrottle:
    def test_the_first_call_is_published_and_later_ones_return_its_result(
        self, unique, take_messages, duplicates
    ):
        task = unique()

        first, second = task.delay(7, "a"), task.delay(tenant=7, value="b")

        assert (first.is_duplicate, second.is_duplicate) == (False, True)
        assert second.id == first.id
        assert [message.headers["id"] for message in take_messages()] == [first.id]
        (duplicate,) = duplicates
        assert (duplicate["what"], duplicate["outcome"], duplicate["key"]) == ("publish", "returned", KEY)
        assert duplicate["task_id"] != duplicate["holder"]["task_id"] == first.id

    def test_after_its_time_a_call_is_published_again(self, unique, take_messages, pass_time):
        task = unique()

        task.delay(7)
        pass_time(59)
        assert task.delay(7).is_duplicate
        pass_time(1)
        assert not task.delay(7).is_duplicate

        assert len(take_messages()) == 2

    def test_another_key_is_another_call(self, unique, take_messages):
        task = unique()

        assert [task.delay(7).is_duplicate, task.delay(8).is_duplicate] == [False, False]

    def test_the_time_of_a_delayed_call_counts_from_when_it_is_due(self, unique, clock, pass_time):
        task = unique()

        task.apply_async((7,), countdown=600)
        task.apply_async((8,), eta=clock.now() + timedelta(seconds=600))
        pass_time(650)
        assert task.delay(7).is_duplicate
        assert task.delay(8).is_duplicate
        pass_time(11)
        assert not task.delay(7).is_duplicate
        assert not task.delay(8).is_duplicate

    def test_a_retry_and_a_snooze_of_the_first_pass(self, unique, take_messages):
        def fail(tenant):
            raise ends.pop()

        ends = [Snooze(5), PartnerError("boom")]
        task = unique(fail, retry=Fixed(seconds=1, max_retries=3))
        task.delay(7)
        (message,) = take_messages()

        for _ in range(2):
            with pytest.raises(Retry):
                run_message(task, message)

        assert [again.headers["id"] for again in take_messages()] == [message.headers["id"]] * 2

    def test_the_same_id_published_again_passes(self, unique, take_messages):
        task = unique()

        task.apply_async((7,), task_id="mine")
        assert not task.apply_async((7,), task_id="mine").is_duplicate

        assert len(take_messages()) == 2

    def test_a_failed_publish_holds_nothing_back(self, unique, store):
        task = unique()
        with pytest.raises(SerializerNotInstalled):
            task.apply_async((7,), serializer="none such")

        assert store.read(KEY) is None
        assert not task.delay(7).is_duplicate

    def test_without_the_state_store_every_call_is_published(self, unique, store, take_messages, caplog):
        task = unique()
        store.go_away()

        results = [task.delay(7), task.delay(7)]

        assert [result.is_duplicate for result in results] == [False, False]
        assert len(take_messages()) == 2
        assert caplog.text.count("published without comparing: the state store is away") == 2

    def test_if_it_cannot_be_confirmed_the_call_is_published_all_the_same(
        self, unique, store, take_messages, pass_time
    ):
        task = unique()
        store.go_away("complete")

        task.delay(7)

        assert len(take_messages()) == 1
        pass_time(3.1)
        assert not task.delay(7).is_duplicate


class TestAPublisherThatDies:
    """Its claim is there, and nobody knows whether its message is."""

    @pytest.fixture
    def dead_publisher(self, store):
        holder = {"task_id": "perhaps", "task": "outcome.probe"}
        assert store.acquire(KEY, owner="dead", holder=holder, lease_seconds=3).is_granted

    def test_the_next_call_is_published_within_the_budget(
        self, unique, dead_publisher, take_messages, caplog
    ):
        result = unique().delay(7)

        assert not result.is_duplicate
        assert [message.headers["id"] for message in take_messages()] == [result.id]
        assert "published beside an unconfirmed call" in caplog.text

    def test_later_ones_are_compared_again(self, unique, dead_publisher, pass_time):
        task = unique()
        pass_time(3)

        assert [task.delay(7).is_duplicate, task.delay(7).is_duplicate] == [False, True]

    @pytest.mark.parametrize("end", ["confirmed", "failed"])
    def test_a_call_waits_for_one_that_is_just_being_published(self, unique, store, dead_publisher, end):
        """The other one is alive, only slow."""
        task, results = unique(), []
        thread = threading.Thread(target=lambda: results.append(task.delay(7)))
        thread.start()
        wait_until(lambda: "read" in store.calls, timeout_seconds=10, what="the call waits")

        if end == "confirmed":
            store.complete(KEY, owner="dead", result=None, remember_seconds=60)
        else:
            store.release(KEY, owner="dead")
        thread.join(timeout=10)

        (result,) = results
        assert result.is_duplicate == (end == "confirmed")
        assert (result.id == "perhaps") == (end == "confirmed")


class TestInsideATransaction:
    @pytest.mark.django_db
    def test_the_decision_is_made_at_the_commit(
        self, unique, store, take_messages, django_capture_on_commit_callbacks
    ):
        task = unique()
        first = task.apply_async((7,), on_commit=False)

        with django_capture_on_commit_callbacks(execute=True):
            second = task.delay(7)
            its_own_id = second.id
            assert its_own_id != first.id
            assert second.is_duplicate is None

        assert (second.id, second.is_duplicate) == (first.id, True)
        assert len(take_messages()) == 1

    @pytest.mark.django_db
    def test_a_transaction_that_is_rolled_back_holds_nothing_back(
        self, unique, store, django_capture_on_commit_callbacks
    ):
        task = unique()

        with django_capture_on_commit_callbacks():
            task.delay(7)

        assert store.read(KEY) is None


class TestTheBudget:
    def test_a_broker_failure_is_told_and_holds_nothing_back(self, make_app, settings, clock, caplog):
        settings.CELERY_BROKER_URL = "redis://127.0.0.1:1/0"
        settings.CELERY_BROKER_TRANSPORT = "redis"
        app = make_app(PUBLISH_TIMEOUT_SECONDS=0.3)
        app.state_store = MemoryStore(clock)
        app.task(name="outcome.probe", unique_for=60)(do_nothing)

        with pytest.raises(PublishError):
            app.tasks["outcome.probe"].delay(7)

        assert app.state_store.find("unique:") == []


class TestASchedule:
    def test_its_calls_are_compared_like_any_other(self, unique, memory_app, store, take_messages):
        unique()
        beat = Scheduler(memory_app, lazy=True)
        entry = beat.Entry("probe", "outcome.probe", schedule=60, args=(7,), app=memory_app)

        results = [beat.apply_async(entry, advance=False) for _ in range(2)]

        assert results[0].id == results[1].id
        assert len(take_messages()) == 1
