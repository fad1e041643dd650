"""One run a key: what a run, its retry, a duplicate and a redelivery find, and what they leave."""

from __future__ import annotations

import datetime
import decimal
import uuid

import pytest
from celery.exceptions import Ignore, Reject, Retry

from taskyard import Cancel, Fixed, IdempotentTask, Never, Snooze
from taskyard.errors import ArgumentError, ClaimLostError, StateUnavailableError
from taskyard.signals import duplicate_found
from tests.support.memory_state import MemoryStore
from tests.support.runs import PartnerError, run

KEY = "idempotent:outcome.probe:7"


@pytest.fixture
def store(memory_app, clock):
    memory_app.state_store = MemoryStore(clock)
    return memory_app.state_store


@pytest.fixture
def idempotent(declare, store, recorded_failures):
    """Declare an idempotent task with the given body."""

    def idempotent(body, **options):
        return declare(
            body, **{"base": IdempotentTask, "idempotency_key": "order_id", "bind": True} | options
        )

    return idempotent


@pytest.fixture
def counting(idempotent):
    """Declare a task that counts its effects in `counting.effects`."""
    effects = []

    def body(self, order_id):
        effects.append(order_id)
        return {"number": len(effects)}

    def counting(**options):
        return idempotent(body, **options)

    counting.effects = effects
    return counting


@pytest.fixture
def duplicates():
    found = []

    def receive(**arguments):
        found.append(arguments)

    duplicate_found.connect(receive)
    yield found
    duplicate_found.disconnect(receive)


def returning(result):
    def body(self, order_id):
        return result

    return body


def raising(error):
    def body(self, order_id):
        raise error

    return body


def hold(store, *, task_id, key=KEY, seconds=10):
    """Have another run hold the key, as its worker would."""
    holder = {"task_id": task_id, "task": "outcome.probe", "worker": "other@host"}
    attempt = store.acquire(key, owner="other", holder=holder, lease_seconds=seconds)
    assert attempt.is_granted


class TestSuccess:
    def test_the_effect_happens_once_and_a_duplicate_gets_the_first_result(self, counting):
        task = counting()

        results = [run(task, 7, task_id=f"id-{number}") for number in range(3)]

        assert results == [{"number": 1}] * 3
        assert counting.effects == [7]

    def test_another_key_is_another_effect(self, counting):
        task = counting()

        assert [run(task, 7), run(task, 8), run(task, order_id=7)] == [
            {"number": 1},
            {"number": 2},
            {"number": 1},
        ]

    def test_the_same_message_again_gets_the_first_result_too(self, counting):
        task = counting()

        assert run(task, 7, task_id="id-1") == run(task, 7, task_id="id-1") == {"number": 1}

    @pytest.mark.parametrize(
        "result",
        [
            None, 0, "", False, "\x00\ud800", [1, {"a": None}], float("inf"),
            uuid.UUID(int=7), decimal.Decimal("1.50"), datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC),
        ],
    )  # fmt: skip
    def test_a_duplicate_gets_what_was_returned(self, idempotent, result):
        task = idempotent(returning(result))

        run(task, 7)
        again = run(task, 7, task_id="id-2")

        assert again == result
        assert type(again) is type(result)

    @pytest.mark.parametrize("result", [object(), "x" * 300_000], ids=["not JSON", "large"])
    def test_a_result_that_cannot_be_kept_is_none_for_a_duplicate(self, idempotent, events, result):
        task = idempotent(returning(result))

        assert run(task, 7) is result
        assert run(task, 7, task_id="id-2") is None
        assert any(line["event"].startswith("result not kept for duplicates") for line in events())

    def test_it_is_remembered_as_long_as_declared(self, counting, clock):
        task = counting(idempotency_ttl=datetime.timedelta(minutes=1))

        run(task, 7)
        clock.moment += datetime.timedelta(seconds=59)
        assert run(task, 7) == {"number": 1}
        clock.moment += datetime.timedelta(seconds=2)
        assert run(task, 7) == {"number": 2}

    def test_it_is_remembered_for_a_week_where_nothing_is_declared(self, counting, store):
        run(counting(), 7)

        assert store.read(KEY).expires_in_seconds == 7 * 24 * 3600

    def test_two_tasks_with_one_scope_share_their_keys(self, memory_app, counting, store):
        task = counting(idempotency_scope="order")

        @memory_app.task(
            name="outcome.other", base=IdempotentTask, idempotency_key="{pk}", idempotency_scope="order"
        )
        def other(pk):
            return "the other's"

        run(task, 7)

        assert run(memory_app.tasks["outcome.other"], 7) == {"number": 1}
        assert store.read("idempotent:order:7").state == "done"

    def test_the_store_knows_who_it_was(self, counting, store):
        run(counting(), 7, task_id="id-9")

        holder = store.read(KEY).holder
        assert (holder["task_id"], holder["task"]) == ("id-9", "outcome.probe")

    def test_a_marked_argument_shows_nowhere(self, idempotent, store, events, caplog):
        task = idempotent(returning(None), redact=("order_id",))

        run(task, "4111-1111")
        run(task, "4111-1111", task_id="id-2")

        (claim,) = store.find("")
        assert "4111" not in f"{claim}{events()}{caplog.text}"


class TestOtherEnds:
    @pytest.mark.parametrize(
        ("error", "ends_with"),
        [
            (PartnerError("boom"), Retry),
            (Snooze(5), Retry),
            (Cancel("no customer"), Ignore),
            (Reject("later", requeue=True), Reject),
            (Retry(), Retry),
            (SystemExit(1), SystemExit),
        ],
        ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
    )
    def test_the_key_is_free_for_the_next_run(self, idempotent, store, error, ends_with):
        task = idempotent(raising(error), retry=Fixed(seconds=1))

        with pytest.raises(ends_with):
            run(task, 7)

        assert store.read(KEY) is None

    def test_a_retry_runs_and_its_result_counts(self, idempotent):
        runs = []

        def body(self, order_id):
            runs.append(order_id)
            if len(runs) == 1:
                raise PartnerError("not yet")
            return "paid"

        task = idempotent(body, retry=Fixed(seconds=1))

        with pytest.raises(Retry):
            run(task, 7)
        assert run(task, 7, retries=1) == "paid"
        assert run(task, 7, task_id="id-2") == "paid"
        assert len(runs) == 2

    def test_a_final_failure_frees_the_key_for_its_replay(self, idempotent, store, recorded_failures):
        with pytest.raises(PartnerError):
            run(idempotent(raising(PartnerError("boom")), retry=Never()), 7)

        assert [failure.reason for failure in recorded_failures] == ["retries_exhausted"]
        assert store.read(KEY) is None

    def test_a_release_that_fails_changes_nothing_else(self, idempotent, store, events):
        task = idempotent(raising(PartnerError("boom")), retry=Fixed(seconds=1))
        store.go_away("release")

        with pytest.raises(Retry):
            run(task, 7)

        lines = [line["event"] for line in events()]
        assert "claim not released, the next run waits for the end of its lease" in lines
        assert lines[-1] == "task retried"


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


class TestUnusableKeys:
    @pytest.mark.parametrize("value", [None, ""])
    def test_a_call_without_a_key_is_a_final_failure(self, counting, recorded_failures, store, value):
        with pytest.raises(
            ArgumentError, match=r"has no key for this call: 'order_id' gives None or an empty"
        ):
            run(counting(retry=Fixed(seconds=1)), value)

        assert [failure.reason for failure in recorded_failures] == ["not_retryable"]
        assert counting.effects == store.calls == []


class TestStoreAway:
    @pytest.mark.parametrize(
        ("options", "came_over"),
        [({"on_state_loss": "refuse"}, "default"), ({"queue": "critical"}, "critical"), ({}, "critical")],
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
