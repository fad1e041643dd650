"""A cancellation holds whatever dies, freezes or starts again after it."""

from __future__ import annotations

import pytest

from taskyard import cancel
from taskyard.transport.queues import leased
from tests.support import processes
from tests.support.tracked_rows import wait_for_row
from tests.support.waiting import wait_until

pytestmark = pytest.mark.faults
# The lease of a dead worker, and the time until another looks.
RETURN_SECONDS = 30


@pytest.fixture
def site(own_valkey, new_site):
    # no grace worth mentioning would end the tasks of these tests before their workers are hurt
    return new_site(own_valkey.url, CANCEL_GRACE_SECONDS=60)


def cancel_task(site, result):
    return cancel(result.id, by="ops", reason="wrong file", app=site.app)


def assert_never_starts_again(site, worker, result, key, *, starts):
    worker.wait_for_log("task cancelled", task_id=result.id, timeout_seconds=RETURN_SECONDS)
    wait_for_row(site, result.id, lambda row: row["state"] == "cancelled", what="cancelled")
    assert len(site.history.starts(key)) == starts
    assert site.history.ends(key) == []
    assert site.dead_letters.rows(task_id=result.id) == []


def test_the_killed_worker_s_message_does_not_run_again(site):
    """Cancelled while it runs, then the worker dies: the message comes back, and is dropped."""
    first = site.start_worker(name="first@test")
    result = site.tasks["probe.part"].delay("redelivered", str(site.new_gate()))
    site.history.wait_for_start("redelivered")

    assert cancel_task(site, result).state == "running"
    first.kill()
    second = site.start_worker(name="second@test")

    assert_never_starts_again(site, second, result, "redelivered", starts=1)


def test_a_process_that_dies_does_not_bring_it_back(site):
    worker = site.start_worker()
    result = site.tasks["probe.part"].delay("process", str(site.new_gate()))
    (run,) = site.history.wait_for_start("process")

    assert cancel_task(site, result).state == "running"
    processes.kill_pid(run["pid"])

    worker.wait_for_log("task process lost, the task runs again", task_id=result.id)
    assert_never_starts_again(site, worker, result, "process", starts=1)


@pytest.mark.parametrize("fault", ["stop", "kill"])
def test_it_survives_the_broker(site, own_valkey, fault):
    result = site.tasks["probe.part"].delay("waiting", str(site.new_gate()))
    assert cancel_task(site, result).state == "waiting"

    getattr(own_valkey, fault)()
    own_valkey.restart()
    worker = site.start_worker()

    assert_never_starts_again(site, worker, result, "waiting", starts=0)


def test_a_worker_that_was_cut_off_meanwhile_hears_of_it(site, own_valkey):
    """The broker dies, comes back, and is told before the worker has found it again."""
    worker = site.start_worker(prefetch=4)
    gate = site.new_gate()
    held = site.tasks["probe.hold"].delay("before it", str(gate))
    site.history.wait_for_start("before it")
    result = site.tasks["probe.part"].delay("reserved", "")
    wait_until(lambda: leased(own_valkey.client()) == {"default": 2}, timeout_seconds=10, what="reserved")

    own_valkey.kill()
    worker.wait_for_log("consumer: Cannot connect", is_start=True)
    own_valkey.restart()
    cancel_task(site, result)
    gate.open()

    worker.wait_for_log("task succeeded", task_id=held.id, timeout_seconds=RETURN_SECONDS)
    assert_never_starts_again(site, worker, result, "reserved", starts=0)


def test_a_frozen_worker_does_not_start_what_it_has_reserved_when_it_thaws(site, own_valkey):
    worker = site.start_worker(prefetch=4)
    gate = site.new_gate()
    held = site.tasks["probe.hold"].delay("before it", str(gate))
    site.history.wait_for_start("before it")
    result = site.tasks["probe.part"].delay("reserved", "")
    wait_until(lambda: leased(own_valkey.client()) == {"default": 2}, timeout_seconds=10, what="reserved")

    worker.freeze()
    outcome = cancel_task(site, result)
    gate.open()
    # its process ends the task before; the next one waits for the parent
    site.history.wait_for_end("before it")
    worker.thaw()

    assert (outcome.state, outcome.is_confirmed) == ("unknown", False)
    worker.wait_for_log("task succeeded", task_id=held.id)
    assert_never_starts_again(site, worker, result, "reserved", starts=0)
