"""Runs of compared calls: when the key is free again, and which of debounced and replaced calls run."""

from __future__ import annotations

from datetime import timedelta

import pytest
from celery.exceptions import Ignore, Reject, Retry
from celery.signals import after_task_publish
from kombu.exceptions import SerializerNotInstalled

from taskyard import Cancel, Fixed, Never, SingletonTask, Snooze
from taskyard.tasks.unique_run import free_ended
from tests.support.runs import PartnerError, now, run, run_message


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
