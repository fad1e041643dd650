"""One run at a time by key: what a run finds when the lock is free, held, lost or out of reach."""

from __future__ import annotations

from datetime import timedelta

import pytest
from celery.exceptions import Ignore, Reject, Retry

from taskyard import Cancel, Fixed, IdempotentTask, Never, SingletonTask, Snooze
from taskyard.errors import ClaimLostError, StateUnavailableError, TaskDefinitionError
from tests.support.runs import PartnerError, now, run

KEY = "singleton:outcome.probe:7"
OLD, NEW = now() - 200, now() - 100
SINCE = "2026-03-01T12:00:00+00:00"


@pytest.fixture
def singleton(declare, store, recorded_failures):
    """Declare a singleton task; without a body, it only counts its runs in `singleton.runs`."""
    runs = []

    def count(self, tenant, page=1):
        runs.append(tenant)
        return tenant

    def singleton(body=count, **options):
        return declare(body, **{"base": SingletonTask, "singleton_key": "tenant", "bind": True} | options)

    singleton.runs = runs
    return singleton


def hold(store, *, task_id="other", key=KEY, seconds=10):
    """Have another run hold the lock, as its worker would."""
    holder = {"task_id": task_id, "task": "outcome.probe", "worker": "high@host"}
    assert store.acquire(key, owner="another", holder=holder, lease_seconds=seconds).is_granted


def let_go(store, key=KEY):
    assert store.release(key, owner="another")


class TestALockThatIsFree:
    def test_the_task_runs_with_it_and_frees_it(self, singleton, store):
        def look(self, tenant):
            held = store.read(KEY)
            assert (self.lease.key, self.lease.fence, self.lease.is_held) == (KEY, held.fence, True)
            return held.holder

        holder = run(singleton(look), 7)

        assert (holder["task_id"], holder["task"]) == ("id-1", "outcome.probe")
        assert store.read(KEY) is None

    @pytest.mark.parametrize(
        ("end", "outcome"),
        [
            (PartnerError("boom"), PartnerError),
            (Snooze(5), Retry),
            (Cancel("no"), Ignore),
            (Reject("no", requeue=True), Reject),
            (MemoryError(), Exception),
            (SystemExit(1), SystemExit),
        ],
        ids=["failure", "snooze", "cancel", "put back", "out of memory", "exit"],
    )
    def test_it_is_freed_whatever_the_end(self, singleton, store, end, outcome):
        def fail(self, tenant):
            raise end

        with pytest.raises(outcome):
            run(singleton(fail, retry=Never()), 7)

        assert store.read(KEY) is None

    def test_it_is_freed_for_a_retry(self, singleton, store):
        def fail(self, tenant):
            raise PartnerError("boom")

        with pytest.raises(Retry):
            run(singleton(fail, retry=Fixed(seconds=1, max_retries=3)), 7)

        assert store.read(KEY) is None

    @pytest.mark.parametrize(
        ("spec", "key"),
        [
            ("", "singleton:outcome.probe:"),
            ("{tenant}-{page}", "singleton:outcome.probe:7-1"),
            (lambda page: page, "singleton:outcome.probe:1"),
        ],
        ids=["all", "template", "function"],
    )
    def test_what_shares_a_lock_is_declared(self, singleton, store, spec, key):
        hold(store, key=key)

        with pytest.raises(Retry):
            run(singleton(singleton_key=spec), 7)

        assert singleton.runs == []

    def test_another_key_has_another_lock(self, singleton, store):
        hold(store)

        assert run(singleton(), 8) == 8

    def test_a_direct_call_needs_no_lock(self, singleton, store):
        def look(self, tenant):
            self.lease.assert_held()
            return self.lease.is_held, self.lease.fence

        hold(store)

        assert singleton(look)(7) == (True, 0)

    def test_a_run_whose_lock_was_taken_is_told(self, singleton, store, clock, events):
        def lose(self, tenant):
            store.force_release(KEY)
            hold(store, task_id="next")

        run(singleton(lose), 7)

        assert store.read(KEY).holder["task_id"] == "next"
        (warning,) = [line for line in events() if line["event"].startswith("lock lost during the run")]
        assert warning["now"] == f"held by outcome.probe[next] on high@host since {SINCE}"


class TestALockThatIsHeld:
    def test_by_default_the_run_waits_and_uses_up_no_attempt(
        self, singleton, store, take_messages, events, duplicates
    ):
        hold(store)

        with pytest.raises(Retry) as outcome:
            run(singleton(snooze_seconds=8), 7, retries=2)

        assert 4 <= outcome.value.when <= 8
        (message,) = take_messages()
        assert message.headers["retries"] == 2
        assert singleton.runs == []
        assert f"held by outcome.probe[other] on high@host since {SINCE}" in events()[-1]["reason"]
        assert [(d["what"], d["outcome"], d["holder"]["task_id"]) for d in duplicates] == [
            ("singleton", "snoozed", "other")
        ]

    def test_then_it_runs(self, singleton, store):
        task = singleton()
        hold(store)
        with pytest.raises(Retry):
            run(task, 7)

        let_go(store)

        assert run(task, 7) == 7

    def test_it_is_counted_once_however_often_it_comes_up(self, singleton, store, take_messages, duplicates):
        task, headers = singleton(), {}
        hold(store)
        for _ in range(3):
            with pytest.raises(Retry):
                run(task, 7, headers={**headers, "first_published_at": NEW})
            headers = take_messages()[0].headers

        with pytest.raises(Retry):
            run(task, 7, task_id="another one", headers={**headers, "first_published_at": NEW})

        assert [duplicate["task_id"] for duplicate in duplicates] == ["id-1", "another one"]

    def test_skip_ends_it_with_who_has_the_lock(
        self, singleton, store, memory_app, take_messages, duplicates
    ):
        hold(store)

        with pytest.raises(Ignore):
            run(singleton(on_conflict="skip", ignore_result=False), 7, stored=True)

        result = memory_app.AsyncResult("id-1")
        assert result.state == "REVOKED"
        assert str(result.info) == f"skipped: held by outcome.probe[other] on high@host since {SINCE}"
        assert take_messages() == []
        assert [duplicate["outcome"] for duplicate in duplicates] == ["skipped"]

    @pytest.mark.parametrize("on_conflict", ["snooze", "skip", "replace"])
    def test_its_own_lost_run_never_leaves_it_out(self, singleton, store, take_messages, on_conflict):
        """Its worker has died: the message comes back while the lease still stands."""
        task = singleton(on_conflict=on_conflict, snooze_seconds=60)
        hold(store, task_id="id-1", seconds=3)

        with pytest.raises(Retry) as outcome:
            run(task, 7)

        assert 3 <= outcome.value.when <= 4
        (message,) = take_messages()
        store.force_release(KEY)
        # faster than the message that waits
        hold(store, task_id="another one")
        with pytest.raises(Retry):
            run(task, 7, headers={**message.headers, "first_published_at": NEW})

    def test_an_eager_run_cannot_wait(self, singleton, store):
        hold(store)

        result = singleton().apply((7,))

        assert result.state == "IGNORED"
        assert singleton.runs == []


class TestTheNewestReplacesTheOneThatWaits:
    @pytest.fixture
    def task(self, singleton):
        return singleton(on_conflict="replace", ignore_result=False)

    @pytest.fixture
    def wait(self, task, store, take_messages):
        """Run a call that finds the lock held, and return the headers with which it comes again."""

        def wait(task_id, published_at, headers=None):
            headers = {"first_published_at": published_at, **(headers or {})}
            with pytest.raises(Retry):
                run(task, 7, task_id=task_id, headers=headers)
            (message,) = take_messages()
            return message.headers

        hold(store)
        return wait

    def cancelled(self, task, memory_app, task_id, headers):
        with pytest.raises(Ignore):
            run(task, 7, task_id=task_id, headers=headers, stored=True)
        result = memory_app.AsyncResult(task_id)
        return result.state, str(result.info)

    def test_the_older_one_ends_when_it_comes_up(self, task, wait, store, memory_app, singleton, duplicates):
        old = wait("old", OLD)
        new = wait("new", NEW)

        assert self.cancelled(task, memory_app, "old", old) == ("REVOKED", "replaced by new")
        let_go(store)
        assert run(task, 7, task_id="new", headers=new) == 7
        assert singleton.runs == [7]
        assert [(d["task_id"], d["outcome"]) for d in duplicates][-1] == ("old", "replaced")

    def test_also_after_the_newer_one_has_run(self, task, wait, store, memory_app):
        old, new = wait("old", OLD), wait("new", NEW)
        let_go(store)
        run(task, 7, task_id="new", headers=new)

        assert self.cancelled(task, memory_app, "old", old) == ("REVOKED", "replaced by new")

    def test_one_that_comes_later_but_is_older_does_not_replace(self, task, wait, store, memory_app):
        new = wait("new", NEW)

        outcome = self.cancelled(task, memory_app, "old", {"first_published_at": OLD})

        assert outcome == ("REVOKED", "replaced by new")
        let_go(store)
        assert run(task, 7, task_id="new", headers=new) == 7

    def test_one_that_has_not_waited_runs_if_the_lock_is_free(self, task, wait, store):
        wait("new", NEW)
        let_go(store)

        assert run(task, 7, task_id="old", headers={"first_published_at": OLD}) == 7

    def test_a_run_that_waits_on_waits_as_the_same(self, task, wait, store):
        again = wait("new", NEW, wait("new", NEW))
        let_go(store)

        assert run(task, 7, task_id="new", headers=again) == 7

    def test_another_key_is_not_replaced(self, task, wait, store):
        old = wait("old", OLD)
        hold(store, key="singleton:outcome.probe:8")
        with pytest.raises(Retry):
            run(task, 8, task_id="new", headers={"first_published_at": NEW})
        let_go(store)

        assert run(task, 7, task_id="old", headers=old) == 7

    def test_without_the_register_both_wait(self, task, wait, store):
        store.go_away("put_latest", "read_latest")

        first, second = wait("old", OLD), wait("new", NEW)

        store.come_back()
        let_go(store)
        assert run(task, 7, task_id="old", headers=first) == 7
        assert run(task, 7, task_id="new", headers=second) == 7


class TestAStateStoreThatIsAway:
    def test_by_default_the_run_is_put_off(self, singleton, store, events):
        store.go_away()

        with pytest.raises(Retry):
            run(singleton(), 7)

        assert singleton.runs == []
        assert "the state store is away" in events()[-1]["reason"]

    def test_as_declared_it_runs_and_knows_that_it_has_no_lock(self, singleton, store):
        def look(self, tenant):
            return self.lease.is_held

        store.go_away()

        assert run(singleton(look, on_state_loss="run"), 7) is False

    def test_an_eager_run_raises(self, singleton, store):
        store.go_away()

        with pytest.raises(StateUnavailableError):
            singleton(retry=Never()).apply((7,), throw=True).get()

    def test_at_the_end_the_run_succeeds_and_the_lease_ends_by_itself(self, singleton, store, clock, events):
        store.go_away("release")

        assert run(singleton(), 7) == 7
        assert store.read(KEY) is not None
        clock.moment += timedelta(seconds=11)
        assert store.read(KEY) is None
        assert any(line["event"].startswith("lock not released") for line in events())


class TestWithIdempotency:
    """One class may be both: its calls run one at a time, and once."""

    @pytest.fixture
    def task(self, singleton):
        class OnceAndAlone(SingletonTask, IdempotentTask):
            abstract = True

        return singleton(base=OnceAndAlone, idempotency_key="{tenant}-{page}")

    def test_a_call_that_is_done_gets_the_first_result_and_the_lock_is_free(self, task, singleton, store):
        assert [run(task, 7), run(task, 7, task_id="id-2"), run(task, 7, 2, task_id="id-3")] == [7, 7, 7]

        assert singleton.runs == [7, 7]
        assert store.read(KEY) is None

    def test_a_call_waits_for_the_lock_before_it_claims_its_key(self, task, singleton, store):
        hold(store)

        with pytest.raises(Retry):
            run(task, 7)

        assert singleton.runs == []
        assert store.find("idempotent:") == []


class TestTheDeclaration:
    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            ({"singleton_key": "tenat"}, r"Did you mean 'tenant'\?"),
            ({"singleton_key": None}, r"has singleton_key=None\. Give the name of an argument"),
            (
                {"on_conflict": "skipp"},
                r"Did you mean 'skip'\? Use one of: snooze, skip, replace\.",
            ),
            ({"snooze_seconds": 0}, r"snooze_seconds=0\. Give seconds above 0"),
            ({"snooze_seconds": "5"}, r"snooze_seconds='5'\. Give seconds above 0"),
            ({"on_state_loss": "ignore"}, r"on_state_loss='ignore'\. Use one of: refuse, run\."),
        ],
    )
    def test_what_cannot_work_is_refused(self, singleton, options, problem):
        with pytest.raises(TaskDefinitionError, match=problem):
            singleton(**options)

    def test_the_options_need_the_base(self, declare):
        with pytest.raises(TaskDefinitionError, match=r"one of SingletonTask\. Give base=SingletonTask, too"):
            declare(singleton_key="")

    def test_a_lost_lock_can_be_asserted(self, singleton, store):
        def lose(self, tenant):
            self.lease._lease.lose()
            self.lease.assert_held()

        with pytest.raises(ClaimLostError, match="may belong to another run by now"):
            run(singleton(lose, retry=Never()), 7)
