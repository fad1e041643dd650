"""The thread that renews leases, on real stores and in real processes."""

import json
import subprocess
import sys
import threading

import pytest

from taskyard.state.keeper import LeaseKeeper, held, lease_keeper
from tests.support import processes
from tests.support.sites import probe_environment
from tests.support.waiting import wait_until
from tests.support.workers import ROOT

# Two stores are enough: the thread does the same on all of them, except for the connection that it closes.
pytestmark = [
    pytest.mark.integration,
    pytest.mark.parametrize("spec", ["redis", "postgresql"], indirect=True),
]
LEASE_SECONDS = 0.6


@pytest.fixture
def start(spec, key, tmp_path):
    """Start a process with one of the scenarios; its `say` gives the next line, `tell` lets it go on."""
    started = []

    def start(scenario, *, lease_seconds=LEASE_SECONDS):
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.support.state_scenarios",
                scenario,
                spec.dump(),
                key,
                str(lease_seconds),
            ],
            cwd=ROOT,
            env={**probe_environment(tmp_path), "PYTHONPATH": f"{ROOT}:{ROOT / 'platform'}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            preexec_fn=processes.end_with_tests,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        processes.end_tree(process)
        process.stdin.close()
        process.stdout.close()


def said(process):
    """Return the next thing that the process says, without what it logs."""
    line = next((line for line in process.stdout if line.startswith(b"{")), None)
    assert line, f"the process has ended: {process.wait(timeout=10)}"
    return json.loads(line)


def tell(process):
    process.stdin.write(b"\n")
    process.stdin.flush()


def wait_longer_than_a_lease(store, key):
    """Wait for a lease of the same length, taken now, to end."""
    store.acquire(f"{key} measure", owner="test", holder={}, lease_seconds=2 * LEASE_SECONDS)
    wait_until(lambda: store.read(f"{key} measure") is None, timeout_seconds=10, what="a lease has ended")


def test_a_held_claim_outlives_its_lease_and_is_free_soon_after_the_block(store, hold, key):
    claim = hold("a", lease_seconds=LEASE_SECONDS).claim

    with held(store, claim, lease_seconds=LEASE_SECONDS) as lease:
        wait_longer_than_a_lease(store, key)

        assert not lease.is_lost
        assert lease.fence == claim.fence
        assert not hold("b").is_granted
    wait_until(lambda: hold("b").is_granted, timeout_seconds=5, what="nobody renews it any more")


def test_a_claim_that_was_taken_away_is_lost_within_a_third_of_the_lease(store, hold, key):
    claim = hold("a", lease_seconds=LEASE_SECONDS).claim

    with held(store, claim, lease_seconds=LEASE_SECONDS) as lease:
        store.force_release(key)
        taken = hold("b", lease_seconds=60).claim
        wait_until(lambda: lease.is_lost, timeout_seconds=LEASE_SECONDS, what="the loss is known")

    now = store.read(key)
    assert (now.owner, now.fence) == ("b", taken.fence)
    assert now.expires_in_seconds > 50


def test_a_block_that_fails_ends_the_renewals_too(store, hold):
    claim = hold("a", lease_seconds=LEASE_SECONDS).claim

    with pytest.raises(ZeroDivisionError), held(store, claim, lease_seconds=LEASE_SECONDS):
        raise ZeroDivisionError

    wait_until(lambda: hold("b").is_granted, timeout_seconds=5, what="nobody renews it any more")


def test_many_leases_of_many_threads_are_kept_by_one_thread(store, key):
    names = [f"{key}:{number}" for number in range(20)]
    before = {thread.name for thread in threading.enumerate()}
    gate, lost = threading.Event(), []

    def work(name):
        claim = store.acquire(name, owner=name, holder={}, lease_seconds=LEASE_SECONDS).claim
        with held(store, claim, lease_seconds=LEASE_SECONDS) as lease:
            gate.wait(20)
            lost.append(lease.is_lost)
        store.close_thread()

    workers = [threading.Thread(target=work, args=(name,)) for name in names]
    for worker in workers:
        worker.start()
    wait_until(lambda: len(store.find(f"{key}:")) == len(names), timeout_seconds=10, what="all are held")
    wait_longer_than_a_lease(store, key)
    held_now = store.find(f"{key}:")
    keepers = [thread for thread in threading.enumerate() if thread.name == "taskyard-leases"]
    gate.set()
    for worker in workers:
        worker.join()

    assert len(held_now) == len(names)
    assert lost == [False] * len(names)
    assert len(keepers) == 1
    assert keepers[0].daemon
    assert before <= {"taskyard-leases", *before}


def test_the_thread_ends_when_there_is_nothing_to_keep_and_starts_again(store, hold):
    keeper = LeaseKeeper(idle_seconds=0.05)

    for owner in ("a", "b"):
        claim = hold(owner, lease_seconds=LEASE_SECONDS).claim
        with keeper.held(store, claim, lease_seconds=LEASE_SECONDS):
            assert keeper.is_running
        store.release(claim.key, owner=owner)
        wait_until(lambda: not keeper.is_running, timeout_seconds=5, what="the thread has ended")


def test_a_thread_that_has_broken_is_started_again_by_the_next_lease(store, hold, key):
    class BrokenStore:
        def renew(self, key, *, owner, lease_seconds):
            raise SystemExit

        def close_thread(self):
            pass

    keeper = LeaseKeeper(idle_seconds=0.05)
    broken, claim = hold("a", of=f"{key} broken").claim, hold("a", lease_seconds=LEASE_SECONDS).claim
    with keeper.held(BrokenStore(), broken, lease_seconds=0.01):
        wait_until(lambda: not keeper.is_running, timeout_seconds=5, what="the thread has ended")

    with keeper.held(store, claim, lease_seconds=LEASE_SECONDS) as lease:
        wait_longer_than_a_lease(store, key)
        assert not lease.is_lost
    wait_until(lambda: not keeper.is_running, timeout_seconds=5, what="the thread has ended")


def test_a_process_has_one_keeper(spec):
    assert lease_keeper() is lease_keeper()


def test_the_claim_of_a_killed_process_is_free_when_its_lease_has_ended(start, hold):
    process = start("hold")
    fence = said(process)["fence"]
    assert not hold("b").is_granted

    processes.kill(process)

    wait_until(lambda: hold("b").is_granted, timeout_seconds=LEASE_SECONDS + 2, what="the claim is free")
    assert hold("b").claim.fence > fence


def test_a_process_that_wakes_up_late_learns_of_its_loss_and_changes_nothing(start, hold, store, key):
    process = start("hold")
    said(process)
    processes.freeze(process.pid)
    wait_until(lambda: hold("b", lease_seconds=60).is_granted, timeout_seconds=5, what="the claim is free")
    taken = store.read(key)

    processes.thaw(process.pid)
    tell(process)
    wait_longer_than_a_lease(store, key)
    tell(process)

    assert said(process) == {"lost_at_once": True, "lost": True, "completed": False}
    now = store.read(key)
    assert (now.owner, now.fence, now.state) == ("b", taken.fence, "held")
    assert process.wait(timeout=10) == 0


def test_a_process_that_wakes_up_late_keeps_what_nobody_has_taken(start, store, key):
    process = start("hold")
    said(process)
    processes.freeze(process.pid)
    wait_until(lambda: store.read(key) is None, timeout_seconds=5, what="the claim is free")

    processes.thaw(process.pid)
    tell(process)
    wait_until(lambda: store.read(key), timeout_seconds=5, what="the claim is renewed")
    # that the answer has come back too is not seen from here
    wait_longer_than_a_lease(store, key)
    tell(process)

    end = said(process)
    assert (end["lost"], end["completed"]) == (False, True)


def test_the_thread_does_not_keep_a_process_from_ending(start):
    process = start("leave")

    assert said(process) == {"lost": False}
    assert process.wait(timeout=10) == 0


def test_a_forked_child_has_a_keeper_and_a_connection_of_its_own(start):
    process = start("fork")

    assert said(process) == {"who": "child", "lost": False, "mixed": 0, "held": True}
    assert said(process) == {"who": "parent", "lost": False, "mixed": 0}
    assert process.wait(timeout=10) == 0
