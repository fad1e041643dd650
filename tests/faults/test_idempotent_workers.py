"""A worker dies or freezes while it holds a key: it comes free in time, and a late owner harms nobody."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]
# of the promise, with the default lease
FREE_WITHIN_SECONDS = 15
RUNS_WITHIN_SECONDS = 20


@pytest.fixture
def site(valkey, new_site):
    valkey.client().flushall()
    return new_site(valkey.url)


def claim_of(site, task, key):
    return site.app.state_store.read(f"idempotent:{task}:{key}")


def freeze(worker):
    """SIGSTOP a worker with its pool."""
    pids = [worker.pid, *worker.children()]
    for pid in pids:
        processes.freeze(pid)
    return pids


def test_the_key_of_a_killed_worker_is_free_in_time_and_its_message_runs(site):
    gate = site.new_gate()
    victim = site.start_worker()
    first = site.tasks["probe.once"].delay("killed", str(gate))
    (lost,) = site.history.wait_for_start("killed")
    held = claim_of(site, "probe.once", "killed")
    survivor = site.start_worker()
    second = site.tasks["probe.once"].delay("killed", str(gate))
    survivor.wait_for_log("duplicate snoozed", task_id=second.id)

    victim.kill()
    died_at = time.monotonic()

    def is_free():
        claim = claim_of(site, "probe.once", "killed")
        return claim is None or claim.owner != held.owner

    wait_until(is_free, timeout_seconds=FREE_WITHIN_SECONDS, what="the key of the killed worker is free")
    (_, run) = site.history.wait_for_start("killed", count=2, timeout_seconds=RUNS_WITHIN_SECONDS)
    assert run["at"] - died_at < RUNS_WITHIN_SECONDS
    assert run["fence"] > lost["fence"]
    gate.open()
    # one of the two has run, the other one has its result
    assert (
        first.get(timeout=40) == second.get(timeout=40) == {"task_id": run["task_id"], "fence": run["fence"]}
    )
    assert len(site.history.starts("killed")) == 2
    assert site.dead_letters.rows() == []


def test_the_message_of_a_killed_worker_comes_back_to_a_task_that_skips(site):
    """Its own claim may still stand: to skip it would be to lose the task."""
    gate = site.new_gate()
    # longer than the lease of the message
    victim = site.start_worker(settings={"LEASE_SECONDS": 18})
    first = site.tasks["probe.once_or_skip"].delay("comes back", str(gate))
    site.history.wait_for_start("comes back")

    victim.kill()
    survivor = site.start_worker()
    waited = survivor.wait_for_log("duplicate snoozed", task_id=first.id, timeout_seconds=30)

    assert waited[0]["held_by"] == first.id
    gate.open()
    site.history.wait_for_end("comes back", timeout_seconds=30)
    assert len(site.history.starts("comes back")) == 2


@pytest.mark.parametrize("task", ["probe.once", "probe.once_asserting"])
def test_a_thawed_owner_neither_completes_nor_frees_the_key_of_the_next(site, task):
    gate = site.new_gate()
    frozen = site.start_worker()
    result = site.tasks[task].delay("frozen", str(gate))
    (late,) = site.history.wait_for_start("frozen")
    pids = freeze(frozen)
    successor = site.start_worker()
    (_, current) = site.history.wait_for_start("frozen", count=2, timeout_seconds=RUNS_WITHIN_SECONDS + 10)
    assert current["fence"] > late["fence"]

    for pid in pids:
        processes.thaw(pid)
    Path(f"{gate}.{late['fence']}").touch()
    if task == "probe.once":
        (line,) = frozen.wait_for_log("effect done by two runs: the claim was lost meanwhile")
        assert (line["other_task_id"], line["other_is_done"]) == (result.id, False)
    else:
        (line,) = frozen.wait_for_log("task retried")
        assert "may belong to another run by now" in line["reason"]

    claim = claim_of(site, task, "frozen")
    assert (claim.state, claim.fence) == ("held", current["fence"])
    gate.open()
    successor.wait_for_log("task succeeded", task_id=result.id)
    claim = claim_of(site, task, "frozen")
    assert (claim.state, claim.fence) == ("done", current["fence"])
    ended = [record["fence"] for record in site.history.ends("frozen")]
    assert ended == ([late["fence"]] if task == "probe.once" else []) + [current["fence"]]
