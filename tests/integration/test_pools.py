"""Every kind of pool runs tasks and stops on SIGTERM, and what it was running finishes."""

import pytest

from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
EXIT_SECONDS = 10
POOLS = pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])


@pytest.fixture
def site(valkey, new_site):
    valkey.client().flushall()
    return new_site(valkey.url, SOFT_SHUTDOWN_SECONDS=30)


@POOLS
def test_a_pool_runs_tasks_and_stops(site, valkey, pool):
    worker = site.start_worker(pool=pool, processes=2)
    result = site.tasks["probe.add"].delay(2, 3)
    failed = site.tasks["probe.fail"].delay("fails", "value_error")
    site.tasks["probe.retry"].delay("retried", 1)

    assert result.get(timeout=30) == 5
    site.dead_letters.wait_for(task_id=failed.id)
    site.history.wait_for_end("retried")

    worker.terminate()

    assert worker.wait_for_exit(EXIT_SECONDS) == 0
    assert worker.log_events(level="critical") == []


@POOLS
def test_a_running_task_finishes_when_its_worker_is_stopped(site, valkey, pool):
    worker = site.start_worker(pool=pool, processes=1)
    gate = site.new_gate()
    site.tasks["probe.hold"].delay("running", str(gate))
    site.tasks["probe.hold"].delay("waiting", str(gate))
    site.history.wait_for_start("running")

    worker.terminate()
    if pool != "solo":  # which sees the signal only after its task
        worker.wait_for_log("worker stopping")
    gate.open()

    assert worker.wait_for_exit(EXIT_SECONDS) == 0
    assert len(site.history.ends("running")) == len(site.history.starts("running")) == 1
    assert site.history.starts("waiting") == []
    wait_until(lambda: valkey.client().llen("default") == 1, timeout_seconds=5, what="the other task is back")
