"""Strict order on one worker: queues by urgency, and priorities within a queue."""

import pytest

pytestmark = pytest.mark.integration
QUEUES = ("critical", "high", "default", "low", "bulk")


@pytest.fixture(scope="module")
def site(broker, shared_site):
    return shared_site(broker.url)


@pytest.fixture(scope="module")
def worker(site):
    return site.start_worker(processes=1)


@pytest.fixture
def held(site, worker):
    """The only process of the worker is busy until this gate opens, so that what is published waits."""
    gate = site.new_gate()
    site.tasks["probe.hold"].delay(f"held {gate}", str(gate))
    site.history.wait_for_start(f"held {gate}")
    yield gate
    gate.open()


def run_order(site, keys):
    site.history.wait_for_end(keys[-1])
    return [key for key in site.history.keys("start") if key in keys]


def test_one_worker_serves_the_queues_in_order_of_urgency(site, held):
    record = site.tasks["probe.record"]
    for number in range(4):
        for queue in reversed(QUEUES):
            record.apply_async((f"{queue} {number}",), queue=queue)
    expected = [f"{queue} {number}" for queue in QUEUES for number in range(4)]

    held.open()

    assert run_order(site, expected) == expected


@pytest.mark.parametrize("queue", QUEUES)
def test_priorities_nine_to_zero_run_in_that_order(site, held, queue):
    record = site.tasks["probe.record"]
    for priority in (4, 0, 9, 5, 1, 7, 3, 8, 2, 6):
        record.apply_async((f"{queue} priority {priority}",), queue=queue, priority=priority)
    expected = [f"{queue} priority {priority}" for priority in range(9, -1, -1)]

    held.open()

    assert run_order(site, expected) == expected
    assert [
        record["priority"] for record in site.history.records("start") if record["key"] in expected
    ] == list(range(9, -1, -1))


def test_a_priority_on_a_lesser_queue_does_not_overtake_a_more_urgent_queue(site, held):
    site.tasks["probe.record"].apply_async(("bulk first",), queue="bulk", priority=9)
    site.tasks["probe.record"].apply_async(("critical last",), queue="critical", priority=0)

    held.open()

    assert run_order(site, ["critical last", "bulk first"]) == ["critical last", "bulk first"]
