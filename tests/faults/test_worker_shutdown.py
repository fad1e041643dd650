"""SIGTERM in the middle of tasks: each finishes, or the next worker has it at once; none is lost."""

import pytest

from taskyard.transport.queues import leased
from tests.support import processes
from tests.support.waiting import wait_until

pytestmark = pytest.mark.faults
PROCESSES = 2
TASKS = 6
# What a stop may take besides the patience: ending the pool and the connections, on a busy machine.
EXIT_SECONDS = 10
SIGNALS = pytest.mark.parametrize("signal", ["terminate", "terminate_group"])


@pytest.fixture
def start(own_valkey, new_site):
    """Start a worker that is patient for so long, busy with all its processes, with more tasks waiting."""

    def start_busy(patience_seconds):
        site = new_site(own_valkey.url, SOFT_SHUTDOWN_SECONDS=patience_seconds)
        worker = site.start_worker(processes=PROCESSES, prefetch=2)
        gate = site.new_gate()
        keys = [f"task {number}" for number in range(TASKS)]
        for key in keys:
            site.tasks["probe.hold"].delay(key, str(gate))
        running = wait_until(
            lambda: running_keys(site, PROCESSES), timeout_seconds=30, what="all processes are busy"
        )
        return site, worker, gate, keys, running

    return start_busy


def running_keys(site, count):
    keys = site.history.keys("start")
    return keys if len(keys) == count else None


def waiting(broker):
    return broker.client().llen("default")


@SIGNALS
def test_tasks_that_outlast_the_patience_run_on_the_next_worker_at_once(own_valkey, start, signal):
    site, worker, gate, keys, running = start(patience_seconds=1)

    getattr(worker, signal)()

    assert worker.wait_for_exit(1 + EXIT_SECONDS) == 0
    assert waiting(own_valkey) == TASKS
    gate.open()
    site.start_worker(processes=PROCESSES)
    for key in keys:
        assert len(site.history.wait_for_end(key)) == 1
        assert len(site.history.starts(key)) == (2 if key in running else 1)
    assert site.dead_letters.rows() == []


@SIGNALS
def test_tasks_that_end_within_the_patience_finish_and_the_worker_stops_with_the_last(
    own_valkey, start, signal
):
    site, worker, gate, _, running = start(patience_seconds=60)

    getattr(worker, signal)()
    worker.wait_for_log("worker stopping", signal="SIGTERM")
    gate.open()

    assert worker.wait_for_exit(EXIT_SECONDS) == 0
    for key in running:
        assert len(site.history.ends(key)) == len(site.history.starts(key)) == 1
    assert site.history.keys("start") == running
    assert waiting(own_valkey) == TASKS - PROCESSES
    assert leased(own_valkey.client()) == {}


def test_a_second_signal_ends_the_waiting(own_valkey, start):
    _, worker, _, _, _ = start(patience_seconds=60)
    worker.terminate()
    worker.wait_for_log("worker stopping")

    worker.terminate()

    assert worker.wait_for_exit(EXIT_SECONDS) == 0
    assert waiting(own_valkey) == TASKS


def test_tasks_that_are_not_due_yet_stay_on_the_broker(own_valkey, new_site):
    site = new_site(own_valkey.url)
    worker = site.start_worker()
    site.tasks["probe.record"].apply_async(("later",), countdown=3600)
    site.tasks["probe.record"].delay("now")
    site.history.wait_for_end("now")

    worker.terminate()

    assert worker.wait_for_exit(EXIT_SECONDS) == 0
    assert site.history.starts("later") == []
    assert own_valkey.client().zcard("taskyard:delayed:default") == 1


def test_a_worker_stops_while_its_broker_is_away(own_valkey, new_site):
    site = new_site(own_valkey.url)
    worker = site.start_worker()
    own_valkey.kill()
    worker.wait_for_log("consumer: Cannot connect", is_start=True)

    worker.terminate()

    worker.wait_for_exit(EXIT_SECONDS)


def test_a_worker_that_loses_its_broker_while_it_stops_does_not_wait_for_it(own_valkey, start):
    site, worker, _, _, running = start(patience_seconds=60)
    worker.terminate()
    worker.wait_for_log("worker stopping")

    own_valkey.kill()

    worker.wait_for_exit(EXIT_SECONDS)
    assert site.history.keys("start") == running


def test_a_worker_stops_while_its_broker_is_frozen(own_valkey, start):
    _, worker, _, _, _ = start(patience_seconds=1)
    children = worker.children()
    own_valkey.freeze()

    worker.terminate()

    assert worker.wait_for_exit(1 + EXIT_SECONDS) == 1
    wait_until(lambda: processes.are_gone(children), timeout_seconds=5, what="its children end with it")


def test_a_worker_stops_while_it_waits_for_its_first_broker(own_valkey, new_site):
    site = new_site(own_valkey.url)
    own_valkey.stop()
    worker = site.start_worker(is_ready=False)
    worker.wait_for_log("consumer: Cannot connect", is_start=True)

    worker.terminate()

    worker.wait_for_exit(EXIT_SECONDS)
