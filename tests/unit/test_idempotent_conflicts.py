"""Another run has the key, the store is away, or the claim is lost: what becomes of a run."""

from __future__ import annotations

import datetime

import pytest
from celery.exceptions import Ignore, Retry

from taskyard import Never, Snooze
from taskyard.errors import ClaimLostError, StateUnavailableError
from taskyard.signals import duplicate_found
from tests.support.idempotent_fixtures import KEY, hold
from tests.support.runs import run


class TestDuplicateOfARunningOne:
    def test_another_call_is_snoozed_without_using_up_an_attempt(
        self, counting, store, clock, duplicates, take_messages, events
    ):
        task = counting()
        hold(store, task_id="first")
        clock.moment += datetime.timedelta(seconds=4)

        with pytest.raises(Retry) as ended:
            run(task, 7, task_id="second", retries=2)

        assert counting.effects == []
        assert ended.value.when == 4
        (message,) = take_messages()
        assert (message.headers["id"], message.headers["retries"]) == ("second", 2)
        (duplicate,) = duplicates
        assert duplicate.items() >= {"key": KEY, "task_id": "second", "outcome": "snoozed"}.items()
        assert duplicate["holder"]["task_id"] == "first"
        line = next(line for line in events() if line["event"] == "duplicate snoozed")
        assert (line["held_by"], line["held_by_worker"]) == ("first", "other@host")
        assert line["since"] == "2026-03-01T12:00:00+00:00"
        assert events()[-1]["reason"] == (
            "snoozed for 4 s: held by outcome.probe[first] on other@host since 2026-03-01T12:00:00+00:00"
        )

    @pytest.mark.parametrize(("lasted", "delay"), [(0, 1), (0.2, 1), (9, 9), (-60, 1), (3600, 30)])
    def test_it_looks_again_after_as_long_as_the_first_has_lasted(
        self, counting, store, clock, lasted, delay
    ):
        task = counting()
        hold(store, task_id="first", seconds=10_000)
        clock.moment += datetime.timedelta(seconds=lasted)

        with pytest.raises(Retry) as ended:
            run(task, 7, task_id="second")

        assert ended.value.when == delay

    def test_it_is_skipped_where_declared(self, counting, store, duplicates, take_messages, events):
        task = counting(on_duplicate="skip")
        hold(store, task_id="first")

        with pytest.raises(
            Ignore, match=r"skipped: held by outcome\.probe\[first\] on other@host since 2026"
        ):
            run(task, 7, task_id="second")

        assert counting.effects == []
        assert take_messages() == []
        assert [duplicate["outcome"] for duplicate in duplicates] == ["skipped"]
        assert store.read(KEY).duplicates == 1

    @pytest.mark.parametrize("on_duplicate", ["snooze", "skip"])
    def test_the_same_task_is_never_skipped_but_waits_for_the_lease_of_its_lost_run(
        self, counting, store, clock, take_messages, on_duplicate
    ):
        task = counting(on_duplicate=on_duplicate)
        hold(store, task_id="first", seconds=10)
        clock.moment += datetime.timedelta(seconds=8)

        with pytest.raises(Retry) as ended:
            run(task, 7, task_id="first")
        assert ended.value.when == 2.5
        assert len(take_messages()) == 1

        clock.moment += datetime.timedelta(seconds=2.5)
        assert run(task, 7, task_id="first") == {"number": 1}

    def test_a_finished_one_is_counted_and_logged(self, counting, duplicates, events):
        task = counting(on_duplicate="skip")
        run(task, 7, task_id="first")

        run(task, 7, task_id="second")

        (duplicate,) = duplicates
        assert (duplicate["outcome"], duplicate["what"]) == ("returned", "idempotent")
        assert duplicate["sender"] is type(task)
        assert [line["event"] for line in events()][-3:] == [
            "task started",
            "duplicate returned",
            "task succeeded",
        ]

    def test_a_receiver_that_fails_changes_nothing(self, counting, caplog):
        def receive(**arguments):
            raise RuntimeError("a receiver's own error")

        duplicate_found.connect(receive)
        try:
            task = counting()
            assert run(task, 7) == run(task, 7)
        finally:
            duplicate_found.disconnect(receive)

    def test_an_eager_duplicate_cannot_wait(self, counting, store):
        hold(store, task_id="first")

        result = counting().apply((7,))

        assert counting.effects == []
        assert result.state == "IGNORED"


class TestStoreAway:
    @pytest.mark.parametrize(
        ("options", "came_over"),
        [({"on_state_loss": "refuse"}, "default"), ({"queue": "critical"}, "critical")],
    )
    def test_a_run_is_put_off_without_using_up_an_attempt(
        self, counting, store, take_messages, events, options, came_over
    ):
        task = counting(**options)
        store.go_away()

        with pytest.raises(Retry) as ended:
            run(task, 7, queue=came_over, retries=3)

        assert counting.effects == []
        assert ended.value.when == 5
        (message,) = take_messages(came_over)
        assert message.headers["retries"] == 3
        lines = [line for line in events() if line["event"] == "state store away, the run is put off"]
        assert [line["key"] for line in lines] == [KEY]

    @pytest.mark.parametrize(
        ("options", "came_over"),
        [({}, "default"), ({"queue": "critical", "on_state_loss": "run"}, "critical")],
    )
    def test_a_run_goes_on_without_a_claim(self, counting, store, events, options, came_over):
        task = counting(**options)
        store.go_away()

        assert run(task, 7, queue=came_over) == {"number": 1}

        names = [line["event"] for line in events()]
        assert names[1:3] == [
            "state store away, the task runs without its claim",
            "effect done but not recorded, a duplicate would have it again",
        ]

    def test_what_comes_over_the_critical_queue_is_critical(self, counting, store):
        task = counting(queue="default")
        store.go_away()

        with pytest.raises(Retry):
            run(task, 7, queue="critical")

        assert counting.effects == []

    def test_a_store_that_is_back_by_the_end_knows_that_it_is_done(self, counting, store):
        task = counting()
        store.go_away("acquire", times=1)

        run(task, 7)

        assert run(task, 7, task_id="id-2") == {"number": 1}
        assert counting.effects == [7]

    def test_an_eager_run_cannot_be_put_off(self, counting, store):
        store.go_away()

        result = counting(on_state_loss="refuse", retry=Never()).apply((7,))

        assert isinstance(result.result, StateUnavailableError)
        assert counting.effects == []


class TestTheClaimOfTheTask:
    def test_it_has_the_key_and_a_fence_that_grows(self, idempotent, store):
        seen = []

        def body(self, order_id):
            seen.append((self.claim.key, self.claim.fence, self.claim.is_held))
            self.claim.assert_held()
            raise Snooze(1)

        task = idempotent(body)
        for _ in range(2):
            with pytest.raises(Retry):
                run(task, 7)

        (key, first, is_held), (_, second, _) = seen
        assert (key, is_held) == (KEY, True)
        assert 0 < first < second

    def test_without_a_store_there_is_none(self, idempotent, store):
        def body(self, order_id):
            self.claim.assert_held()
            return [self.claim.key, self.claim.fence, self.claim.is_held]

        store.go_away()

        assert run(idempotent(body), 7) == [KEY, 0, False]

    def test_a_task_called_as_a_function_needs_no_store(self, idempotent, store):
        def body(self, order_id):
            self.claim.assert_held()
            return [self.claim.key, self.claim.fence, self.claim.is_held]

        assert idempotent(body)(7) == ["", 0, True]
        assert store.calls == []

    def test_a_lost_claim_is_known_to_the_task_and_left_alone(
        self, idempotent, store, clock, recorded_failures
    ):
        def body(self, order_id):
            # as for a process that is frozen for longer than its lease
            self.claim._lease.lose()
            clock.moment += datetime.timedelta(seconds=11)
            hold(store, task_id="second")
            assert not self.claim.is_held
            self.claim.assert_held()

        task = idempotent(body, retry=Never())

        with pytest.raises(
            ClaimLostError, match=r"The claim 'idempotent:outcome\.probe:7' may belong to another"
        ):
            run(task, 7)

        assert store.read(KEY).holder["task_id"] == "second"

    def test_a_late_owner_ends_as_it_would_and_says_that_the_effect_may_be_doubled(
        self, idempotent, store, clock, duplicates, events
    ):
        def body(self, order_id):
            clock.moment += datetime.timedelta(seconds=11)
            hold(store, task_id="second")
            return "late"

        assert run(idempotent(body), 7, task_id="first") == "late"

        claim = store.read(KEY)
        assert (claim.state, claim.holder["task_id"]) == ("held", "second")
        (line,) = [line for line in events() if line["event"].startswith("effect done by two runs")]
        assert (line["level"], line["other_task_id"], line["other_is_done"]) == ("error", "second", False)
        assert [duplicate["outcome"] for duplicate in duplicates] == ["doubled"]

    def test_a_late_owner_whose_key_nobody_took_records_its_effect(self, idempotent, store, clock):
        def body(self, order_id):
            clock.moment += datetime.timedelta(seconds=11)
            return "late"

        task = idempotent(body)

        assert run(task, 7) == run(task, 7, task_id="id-2") == "late"

    def test_a_late_owner_whose_key_the_store_has_lost_records_its_effect(self, idempotent, store):
        def body(self, order_id):
            store.force_release(KEY)
            return "late"

        task = idempotent(body)

        assert run(task, 7) == run(task, 7, task_id="id-2") == "late"
