"""The lock of a singleton whose process is killed or frozen, and a publisher that dies in the middle."""

import time

import pytest

from taskyard.transport.queues import depth
from tests.support import processes
from tests.support.waiting import wait_until

pytestmark = pytest.mark.faults

FREE_WITHIN_SECONDS = 15.0
SHORT_LEASE_SECONDS = 2.0


def test_the_lock_of_a_killed_worker_is_free_within_fifteen_seconds(valkey, new_site):
    site = new_site(valkey.url, KEY_PREFIX="killed:")
    victim = site.start_worker(name="victim@tests")
    task, gate = site.tasks["probe.one_at_a_time"], site.new_gate()
    first = task.delay("killed", 1, str(gate))
    site.history.wait_for_start("killed")
    survivor = site.start_worker(name="survivor@tests", processes=2)
    second = task.delay("killed", 2)
    survivor.wait_for_log("task snoozed", task_id=second.id)

    victim.kill()
    killed_at = time.monotonic()

    run = next(
        run
        for run in site.history.wait_for_start("killed", count=2, timeout_seconds=FREE_WITHIN_SECONDS + 10)
        if run["pid"] != site.history.starts("killed")[0]["pid"]
    )
    assert run["at"] - killed_at < FREE_WITHIN_SECONDS
    gate.open()
    # nothing is lost with it: the message of the killed run comes back and waits its turn
    ended = site.history.wait_for_end("killed", count=2)
    assert {record["task_id"] for record in ended} == {first.id, second.id}


def test_a_killed_process_waits_for_its_own_lock_and_is_not_skipped(valkey, new_site):
    """The message of a skipping task comes back while the lease of its lost run still stands."""
    site = new_site(valkey.url, KEY_PREFIX="own:", LEASE_SECONDS=14)
    worker = site.start_worker(processes=2)
    gate = site.new_gate()
    result = site.tasks["probe.skip_if_running"].delay("own", 1, str(gate))
    (run,) = site.history.wait_for_start("own")

    processes.kill_pid(run["pid"])
    gate.open()

    (end,) = site.history.wait_for_end("own")
    assert end["task_id"] == result.id
    assert worker.log_events("duplicate snoozed", task_id=result.id)


def test_a_late_owner_does_not_free_the_lock_of_the_next_one(valkey, new_site):
    site = new_site(valkey.url, KEY_PREFIX="late:", LEASE_SECONDS=SHORT_LEASE_SECONDS)
    worker = site.start_worker(processes=3)
    task, gates = site.tasks["probe.one_at_a_time"], [site.new_gate(), site.new_gate()]
    store = site.app.state_store
    task.delay("late", "late owner", str(gates[0]))
    (late,) = site.history.wait_for_start("late")

    processes.freeze(late["pid"])
    task.delay("late", "next", str(gates[1]))
    _, following = site.history.wait_for_start("late", count=2)
    held = store.read("singleton:probe.one_at_a_time:late")
    gates[0].open()
    processes.thaw(late["pid"])
    (end,) = site.history.wait_for_end("late")

    assert (end["value"], end["is_held"]) == ("late owner", False)
    assert following["fence"] > late["fence"]
    worker.wait_for_log("lock lost during the run: its lease has ended, or somebody has released it")
    still = store.read("singleton:probe.one_at_a_time:late")
    assert (still.owner, still.fence) == (held.owner, held.fence)
    third = task.delay("late", "third")
    wait_until(
        lambda: store.read("singleton:probe.one_at_a_time:late").duplicates > still.duplicates,
        timeout_seconds=20,
        what="the third call finds the lock held",
    )
    gates[1].open()
    ends = site.history.wait_for_end("late", count=3)
    assert [record["value"] for record in ends] == ["late owner", "next", "third"]
    assert third.id == ends[-1]["task_id"]


def test_a_state_store_that_is_away_puts_the_run_off(valkey, own_valkey, new_site):
    """The store is apart from the broker here, so that the run can be put off."""
    site = new_site(valkey.url, KEY_PREFIX="away:", STATE_URL=own_valkey.url)
    worker = site.start_worker()
    own_valkey.kill()

    result = site.tasks["probe.one_at_a_time"].delay("away", 1)
    worker.wait_for_log("task snoozed", task_id=result.id)
    assert site.history.starts("away") == []
    own_valkey.restart()

    site.history.wait_for_end("away")


def test_a_publisher_killed_between_claim_and_publish_swallows_no_later_call(valkey, new_site):
    site = new_site(valkey.url, KEY_PREFIX="publisher:")
    console = site.start_console()
    with pytest.raises(AssertionError, match="the console ended"):
        console.run("die_while_publishing", task="probe.throttled", args=["lost"])
    claim = site.app.state_store.read("unique:probe.throttled:lost")
    assert claim.state == "held"
    assert claim.expires_in_seconds < site.app.settings.publish_timeout_seconds + 2
    assert depth(valkey.client(), "default", prefix="publisher:") == 0

    started = time.monotonic()
    result = site.tasks["probe.throttled"].delay("lost")

    assert not result.is_duplicate
    assert time.monotonic() - started < site.app.settings.publish_timeout_seconds
    assert depth(valkey.client(), "default", prefix="publisher:") == 1


def test_a_frozen_state_store_costs_a_publish_a_part_of_its_budget(valkey, own_valkey, new_site):
    site = new_site(valkey.url, KEY_PREFIX="frozen:", STATE_URL=own_valkey.url)
    task = site.tasks["probe.throttled"]
    task.delay("warm")
    own_valkey.freeze()

    started = time.monotonic()
    results = [task.delay("frozen"), task.delay("frozen")]
    seconds = time.monotonic() - started

    own_valkey.thaw()
    assert [result.is_duplicate for result in results] == [False, False]
    assert depth(valkey.client(), "default", prefix="frozen:") == 3
    assert seconds < 2 * site.app.settings.publish_timeout_seconds
