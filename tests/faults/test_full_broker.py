"""A broker whose memory is full refuses what is new: workers finish what they have, and lose nothing."""

from contextlib import contextmanager

import pytest

from taskyard.errors import PublishError

pytestmark = pytest.mark.faults


@contextmanager
def full(broker, site):
    """Take the broker's memory away for as long as the block lasts, and see that it refuses a message."""
    client = broker.client()
    client.config_set("maxmemory", client.info("memory")["used_memory"] // 2)
    with pytest.raises(PublishError, match="the broker refused it"):
        site.tasks["probe.record"].delay("refused")
    yield
    client.config_set("maxmemory", 0)


def test_running_tasks_finish_and_are_acknowledged(own_valkey, new_site):
    site = new_site(own_valkey.url)
    worker = site.start_worker()
    gate = site.new_gate()
    result = site.tasks["probe.hold"].delay("running", str(gate))
    site.history.wait_for_start("running")

    with full(own_valkey, site):
        gate.open()
        worker.wait_for_log("task succeeded", task_id=result.id)

    site.tasks["probe.record"].delay("after")
    site.history.wait_for_end("after")
    worker.terminate()
    assert worker.wait_for_exit(10) == 0
    assert len(site.history.starts("running")) == 1
    assert own_valkey.client().llen("default") == 0


def test_a_retry_that_a_full_broker_refuses_is_not_lost(own_broker, new_site):
    site = new_site(own_broker.url)
    worker = site.start_worker()
    gate = site.new_gate()
    result = site.tasks["probe.retry_after_gate"].delay("retried", str(gate))
    site.history.wait_for_start("retried")

    with full(own_broker, site):
        gate.open()
        worker.wait_for_log("task put back", task_id=result.id)

    site.history.wait_for_end("retried")
    assert worker.is_running
    assert site.dead_letters.rows(task_id=result.id) == []
