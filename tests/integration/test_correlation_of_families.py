"""One correlation id from the web request through its task, children, canvas, retries and dead letters."""

import pytest

from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
REQUEST_ID = "request-2f6b"
MEMBERS = {
    "family",
    *(f"family.{name}" for name in ("child", "retried", "dead")),
    *(f"family.chain.{number}" for number in (1, 2)),
    *(f"family.group.{number}" for number in (0, 1)),
    *(f"family.chord.{part}" for part in ("0", "1", "body")),
}


@pytest.fixture(scope="module")
def site(valkey, shared_site):
    return shared_site(valkey.url, MAX_WORKER_LOSSES=1)


@pytest.fixture(scope="module")
def worker(site):
    return site.start_worker(processes=2)


def test_a_request_can_be_followed_through_all_that_it_causes(site, worker):
    console = site.start_console()

    page = console.value(
        "get_page",
        path="/publish/?task=start_family&argument=&argument=family",
        headers={"X-Request-ID": REQUEST_ID},
    )

    assert page["headers"]["X-Request-ID"] == REQUEST_ID
    (row,) = site.dead_letters.wait_for(task_name="probe.fail")
    for key in MEMBERS:
        site.history.wait_for_start(key, count=2 if key == "family.retried" else 1)
    runs = [run for run in site.history.records("start") if run["key"].startswith("family")]
    assert {run["key"] for run in runs} == MEMBERS
    assert {run["correlation_id"] for run in runs} == {REQUEST_ID}
    # what code inside the task sees, and so what it sends on
    assert {run.get("current", REQUEST_ID) for run in runs} == {REQUEST_ID}
    assert row["correlation_id"] == REQUEST_ID
    for task_id in {run["task_id"] for run in runs}:
        lines = worker.wait_for_log("task started", task_id=task_id)
        assert {line["correlation_id"] for line in lines} == {REQUEST_ID}


def test_a_task_of_no_request_starts_a_correlation_of_its_own(site, worker):
    first = site.tasks["probe.trace"].delay(None, "alone")
    second = site.tasks["probe.trace"].delay(None, "alone")

    runs = site.history.wait_for_start("alone", count=2)
    # several processes: the second may start first
    assert {run["correlation_id"] for run in runs} == {first.id, second.id}


def test_a_lost_process_keeps_the_correlation(site, worker):
    result = site.tasks["probe.die_then_fail"].apply_async(
        ("lost",), headers={"correlation_id": "request-lost"}
    )

    (row,) = site.dead_letters.wait_for(task_id=result.id)
    assert {run["correlation_id"] for run in site.history.starts("lost")} == {"request-lost"}
    assert row["correlation_id"] == "request-lost"


def test_the_result_of_a_chord_can_be_waited_for(site, worker):
    from celery import chord

    trace = site.tasks["probe.trace"]
    result = chord([trace.si(None, f"part {number}") for number in range(3)], trace.s("body")).apply_async()

    assert result.get(timeout=30) == "body"
    wait_until(lambda: site.history.starts("body"), timeout_seconds=10, what="the body is in the history")
