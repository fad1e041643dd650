"""A broker that comes later, goes away, or starts again: workers wait for it and go on; nothing is lost."""

import pytest

from taskyard.errors import PublishTimeoutError

pytestmark = pytest.mark.faults
# Kombu tries again after 2, 4, 6, ... s.
RECONNECT_SECONDS = 30


@pytest.fixture
def site(own_broker, new_site):
    return new_site(own_broker.url)


def publish_and_wait(site, key):
    site.tasks["probe.record"].delay(key)
    return site.history.wait_for_end(key, timeout_seconds=RECONNECT_SECONDS)


def test_a_worker_started_before_its_broker_waits_for_it(own_broker, site):
    own_broker.stop()
    worker = site.start_worker(is_ready=False)
    worker.wait_for_log("consumer: Cannot connect", is_start=True, timeout_seconds=60)

    own_broker.restart()

    worker.wait_until_ready()
    assert len(publish_and_wait(site, "first")) == 1


@pytest.mark.parametrize("fault", ["stop", "kill"])
def test_a_worker_goes_on_after_its_broker_was_restarted(own_broker, site, fault):
    worker = site.start_worker(processes=2)
    publish_and_wait(site, "before")

    getattr(own_broker, fault)()
    worker.wait_for_log("consumer: Cannot connect", is_start=True)
    own_broker.restart()

    assert len(publish_and_wait(site, "after")) == 1
    assert worker.is_running
    assert worker.log_events(level="critical") == []


def test_waiting_and_running_tasks_outlive_the_broker(own_broker, site):
    worker = site.start_worker(processes=2)
    gate = site.new_gate()
    keys = [f"task {number}" for number in range(6)]
    for key in keys:
        site.tasks["probe.hold"].delay(key, str(gate))
    for key in keys[:2]:
        site.history.wait_for_start(key)

    own_broker.kill()
    own_broker.restart()
    gate.open()

    for key in keys:
        site.history.wait_for_end(key, timeout_seconds=RECONNECT_SECONDS)
    assert worker.is_running
    assert site.dead_letters.rows() == []


def test_a_worker_goes_on_after_its_broker_was_frozen(own_broker, site):
    worker = site.start_worker(settings={"SOCKET_TIMEOUT_SECONDS": 1})
    publish_and_wait(site, "before")

    own_broker.freeze()
    with pytest.raises(PublishTimeoutError):
        site.tasks["probe.record"].delay("frozen for this long")
    own_broker.thaw()

    assert len(publish_and_wait(site, "after")) == 1
    assert worker.is_running


def test_a_retry_that_the_broker_does_not_take_is_not_lost(own_broker, site):
    """The broker is away at the very moment: the message is put back and runs again when it has returned."""
    worker = site.start_worker(settings={"PUBLISH_TIMEOUT_SECONDS": 0.5})
    gate = site.new_gate()
    result = site.tasks["probe.retry_after_gate"].delay("retried", str(gate))
    site.history.wait_for_start("retried")

    own_broker.kill()
    gate.open()
    own_broker.restart()

    site.history.wait_for_end("retried", timeout_seconds=RECONNECT_SECONDS)
    assert worker.is_running
    assert site.dead_letters.rows(task_id=result.id) == []
