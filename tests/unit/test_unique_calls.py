"""Equal calls: which is published, which gets the first one's result, which runs, and what is left behind."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from celery.beat import Scheduler
from celery.exceptions import Ignore, Reject, Retry
from celery.signals import after_task_publish
from kombu.exceptions import SerializerNotInstalled

from taskyard import Cancel, Fixed, Never, SingletonTask, Snooze
from taskyard.errors import PublishError
from taskyard.signals import duplicate_found
from taskyard.tasks.unique_run import free_ended
from tests.support.memory_state import MemoryStore
from tests.support.runs import PartnerError, do_nothing, now, run
from tests.support.waiting import wait_until

KEY = "unique:outcome.probe:7"


@pytest.fixture
def store(memory_app, clock):
    memory_app.state_store = MemoryStore(clock)
    return memory_app.state_store


@pytest.fixture
def unique(declare, store, recorded_failures):
    """Declare a unique task; without a body, it only counts its runs in `unique.runs`."""
    runs = []

    def count(tenant, value=None):
        runs.append(value)

    def unique(body=count, **options):
        return declare(body, **{"unique_for": 60, "unique_key": "tenant", "ignore_result": False} | options)

    unique.runs = runs
    return unique


@pytest.fixture
def duplicates():
    found = []

    def receive(**arguments):
        found.append(arguments)

    duplicate_found.connect(receive)
    yield found
    duplicate_found.disconnect(receive)


@pytest.fixture
def pass_time(clock):
    def pass_time(seconds):
        clock.moment += timedelta(seconds=seconds)

    return pass_time


def run_message(task, message, **options):
    """Run a message as its worker does."""
    args, kwargs, _ = message.decode()
    headers = {**message.headers, "first_published_at": now()}
    return run(task, *args, task_id=message.headers["id"], headers=headers, stored=True, **options, **kwargs)


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


class TestTheEndOfAThrottle:
    def outcomes():
        return [
            (None, None),
            (PartnerError("boom"), PartnerError),
            (Cancel("no"), Ignore),
            (Reject("no", requeue=False), Reject),
        ]

    def raising(self, error):
        def body(tenant):
            if error is not None:
                raise error

        return body

    def publish_and_run(self, task, take_messages, outcome):
        task.delay(7)
        (message,) = take_messages()
        if outcome is None:
            run_message(task, message)
        else:
            with pytest.raises(outcome):
                run_message(task, message)

    @pytest.mark.parametrize(("error", "outcome"), outcomes())
    def test_until_the_end_it_stands_until_the_run_has_ended_for_good(
        self, unique, take_messages, error, outcome
    ):
        task = unique(self.raising(error), retry=Never(), unique_until="end")

        self.publish_and_run(task, take_messages, outcome)

        assert not task.delay(7).is_duplicate

    @pytest.mark.parametrize(
        ("error", "outcome"),
        [(PartnerError("boom"), Retry), (Snooze(5), Retry), (Reject("no", requeue=True), Reject)],
    )
    def test_a_run_that_comes_again_has_not_ended(self, unique, take_messages, error, outcome):
        task = unique(self.raising(error), retry=Fixed(seconds=1), unique_until="end")

        self.publish_and_run(task, take_messages, outcome)

        assert task.delay(7).is_duplicate

    def test_a_lost_process_has_not_ended(self, unique, take_messages):
        task = unique(self.raising(SystemExit(1)), unique_until="end")

        self.publish_and_run(task, take_messages, SystemExit)

        assert task.delay(7).is_duplicate

    def test_until_the_start_a_call_during_the_run_is_published(self, unique, take_messages):
        def publish_again(tenant):
            results.append(task.delay(7))

        results = []
        task = unique(publish_again, unique_until="start")

        self.publish_and_run(task, take_messages, None)

        assert not results[0].is_duplicate

    def test_until_the_start_a_call_that_never_starts_frees_it_at_its_end(self, unique, store, take_messages):
        """The lock of its singleton is held, and it does not wait."""
        task = unique(unique_until="start", base=SingletonTask, on_conflict="skip")
        store.acquire("singleton:outcome.probe:", owner="other", holder={}, lease_seconds=60)

        self.publish_and_run(task, take_messages, Ignore)

        assert unique.runs == []
        assert not task.delay(7).is_duplicate

    @pytest.mark.parametrize("until", ["expiry", "end"])
    def test_else_it_is_a_duplicate(self, unique, take_messages, until):
        def publish_again(tenant):
            results.append(task.delay(7))

        results = []
        task = unique(publish_again, unique_until=until)

        self.publish_and_run(task, take_messages, None)

        assert results[0].is_duplicate

    def test_until_expiry_the_run_s_end_changes_nothing(self, unique, take_messages):
        task = unique()

        self.publish_and_run(task, take_messages, None)

        assert task.delay(7).is_duplicate

    @pytest.mark.parametrize("until", ["start", "end"])
    def test_a_run_that_is_faster_than_the_confirmation_frees_it_all_the_same(
        self, unique, store, take_messages, until
    ):
        """The worker has the message before its publisher has the broker's answer."""
        task = unique(unique_until=until)

        def run_at_once(**_):
            (message,) = take_messages()
            run_message(task, message)

        after_task_publish.connect(run_at_once)
        try:
            task.delay(7)
        finally:
            after_task_publish.disconnect(run_at_once)

        assert len(unique.runs) == 1
        assert not task.delay(7).is_duplicate

    def test_a_late_run_does_not_free_a_later_call(self, unique, store, take_messages, pass_time):
        task = unique(unique_until="end")
        task.delay(7)
        (late,) = take_messages()
        pass_time(61)
        assert not task.delay(7).is_duplicate

        run_message(task, late)

        assert task.delay(7).is_duplicate

    @pytest.mark.parametrize("until", ["start", "end"])
    def test_a_call_that_is_revoked_or_killed_frees_it(self, unique, memory_app, take_messages, until):
        task = unique(unique_until=until)
        task.delay(7)
        (message,) = take_messages()

        task.push_request(id=message.headers["id"], headers=message.headers)
        free_ended(memory_app, task.request)
        task.pop_request()

        assert not task.delay(7).is_duplicate

    def test_without_the_state_store_the_run_goes_on(self, unique, store, take_messages, caplog):
        task = unique(unique_until="end")
        task.delay(7)
        (message,) = take_messages()
        store.go_away()

        run_message(task, message)

        assert len(unique.runs) == 1
        assert "unique call not freed" in caplog.text


class TestTheLastCallRuns:
    @pytest.fixture(params=["debounce", "replace"])
    def task(self, request, unique):
        return unique(unique=request.param)

    def test_every_call_is_published_and_the_last_one_runs(
        self, task, unique, memory_app, take_messages, clock, duplicates
    ):
        results = []
        for value in "abc":
            results.append(task.delay(7, value))
            clock.moment += timedelta(seconds=1)
        messages = take_messages()

        assert len(messages) == 3
        for message in messages[:2]:
            with pytest.raises(Ignore):
                run_message(task, message)
        run_message(task, messages[2])
        assert unique.runs == ["c"]
        assert not any(result.is_duplicate for result in results)
        assert [str(result.info) for result in results[:2]] == [f"replaced by {results[2].id}"] * 2
        assert [(d["outcome"], d["task_id"]) for d in duplicates] == [
            ("replaced", result.id) for result in results[:2]
        ]

    def test_debounced_it_runs_its_time_after_the_call_replaced_at_once(self, task, take_messages, clock):
        task.delay(7)

        (message,) = take_messages()
        assert (message.headers["eta"] is not None) == (task.unique == "debounce")

    def test_the_last_call_runs_though_its_publisher_s_clock_is_behind(
        self, task, unique, take_messages, clock
    ):
        task.delay(7, "first")
        clock.moment -= timedelta(seconds=30)
        task.delay(7, "last")

        for message in take_messages():
            run_message(task, message)

        assert unique.runs == ["first", "last"]

    def test_a_publisher_that_dies_before_it_registers_replaces_nobody(
        self, task, unique, store, take_messages, clock
    ):
        task.delay(7, "registered")
        clock.moment += timedelta(seconds=1)
        store.go_away("put_latest")
        task.delay(7, "not registered")

        for message in take_messages():
            run_message(task, message)

        assert unique.runs == ["registered", "not registered"]

    def test_a_failed_publish_replaces_nobody(self, task, unique, take_messages, clock):
        task.delay(7, "before")
        clock.moment += timedelta(seconds=1)
        with pytest.raises(SerializerNotInstalled):
            task.apply_async((7, "never"), serializer="none such")

        (message,) = take_messages()
        run_message(task, message)

        assert unique.runs == ["before"]

    def test_registrations_in_the_wrong_order_cost_a_run_not_the_last_call(
        self, task, unique, store, take_messages, clock
    ):
        """The older call's publisher is slow: it registers after the newer one's."""
        put_latest = store.put_latest

        def publish_newer_first(*args, **kwargs):
            store.put_latest = put_latest
            clock.moment += timedelta(seconds=1)
            task.delay(7, "newer")
            return put_latest(*args, **kwargs)

        store.put_latest = publish_newer_first
        task.delay(7, "older")

        for message in take_messages():
            run_message(task, message)
        assert unique.runs == ["older", "newer"]

    def test_without_the_state_store_at_the_run_it_runs(self, task, unique, store, take_messages, clock):
        task.delay(7, "a")
        clock.moment += timedelta(seconds=1)
        task.delay(7, "b")
        store.go_away("read_latest")

        for message in take_messages():
            run_message(task, message)

        assert unique.runs == ["a", "b"]

    def test_a_replay_with_another_id_runs_though_a_newer_call_has_run(
        self, task, unique, take_messages, clock
    ):
        task.delay(7, "a")
        clock.moment += timedelta(seconds=1)
        task.delay(7, "b")
        old, _ = take_messages()

        run(task, 7, "a", task_id="a replay", headers={**old.headers, "first_published_at": now()})

        assert unique.runs == ["a"]


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
