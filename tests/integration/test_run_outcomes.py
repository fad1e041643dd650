"""What becomes of a run: retry, snooze, cancel, final failure, each on a real worker."""

import pytest

from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def site(valkey, shared_site):
    return shared_site(valkey.url)


@pytest.fixture(scope="module", autouse=True)
def worker(site):
    return site.start_worker(processes=2)


def values(records, field):
    return [record[field] for record in records]


def test_a_retry_keeps_queue_priority_headers_and_correlation_id(site):
    result = site.tasks["probe.retry"].apply_async(
        ("kept", 2), queue="high", priority=8, headers={"tenant": "north", "correlation_id": "request-1"}
    )

    site.history.wait_for_end("kept")
    runs = site.history.starts("kept")
    assert values(runs, "retries") == [0, 1, 2]
    assert values(runs, "task_id") == [result.id] * 3
    assert values(runs, "queue") == ["high"] * 3
    assert values(runs, "priority") == [8] * 3
    assert values(runs, "correlation_id") == ["request-1"] * 3
    assert [run["headers"]["tenant"] for run in runs] == ["north"] * 3
    assert len({run["headers"]["first_published_at"] for run in runs}) == 1
    assert len({run["headers"]["published_at"] for run in runs}) == 3
    assert site.dead_letters.rows(task_id=result.id) == []


def test_the_last_failure_is_one_dead_letter_with_all_that_is_needed_to_run_it_again(site):
    result = site.tasks["probe.retry"].apply_async(
        ("hopeless",), {"failures": 99}, queue="high", priority=8, headers={"tenant": "north"}
    )

    (row,) = site.dead_letters.wait_for(task_id=result.id)
    assert len(site.history.starts("hopeless")) == 4
    assert (row["reason"], row["retries"]) == ("retries_exhausted", 3)
    assert (row["queue"], row["priority"], row["headers"]["tenant"]) == ("high", 8, "north")
    assert (row["args"], row["kwargs"]) == (["hopeless"], {"failures": 99})
    assert row["error"] == "RuntimeError: planned failure number 4"
    assert "probe_app/tasks.py" in row["traceback"]
    assert "/taskyard/tasks/" not in row["traceback"]


def test_a_snooze_uses_no_attempt_and_keeps_queue_and_priority(site, tmp_path):
    result = site.tasks["probe.snooze"].apply_async(
        ("snoozed", str(tmp_path / "count"), 3), queue="low", priority=2, headers={"tenant": "north"}
    )

    site.history.wait_for_end("snoozed")
    runs = site.history.starts("snoozed")
    assert values(runs, "retries") == [0, 0, 0, 0]
    assert values(runs, "queue") == ["low"] * 4
    assert values(runs, "priority") == [2] * 4
    assert values(runs, "correlation_id") == [result.id] * 4
    assert [run["headers"]["tenant"] for run in runs] == ["north"] * 4
    assert site.dead_letters.rows(task_id=result.id) == []


def test_a_cancelled_task_never_runs_again_and_is_no_failure(site, worker):
    result = site.tasks["probe.cancel"].delay("cancelled")

    worker.wait_for_log("task cancelled", task_id=result.id)
    wait_until(lambda: result.state == "REVOKED", timeout_seconds=10, what="its state says so")
    assert len(site.history.starts("cancelled")) == 1
    assert site.dead_letters.rows(task_id=result.id) == []
    assert worker.log_events(level="error", task_id=result.id) == []


def test_a_retry_inside_a_transaction_is_not_lost_with_it(site):
    site.tasks["probe.retry_in_transaction"].delay("in transaction")

    assert values(site.history.wait_for_end("in transaction"), "retries") == [1]


def test_a_result_is_stored_where_it_is_asked_for(site):
    assert site.tasks["probe.add"].delay(2, 3).get(timeout=30) == 5


def test_the_limits_of_the_queue_apply_to_a_task_that_states_none(site):
    for queue, limits in {"critical": [30, 25], "high": [60, 55], "bulk": [3600, 3540]}.items():
        site.tasks["probe.record"].apply_async((f"limits {queue}",), queue=queue)
        (run,) = site.history.wait_for_end(f"limits {queue}")
        assert run["time_limits"] == limits


def test_the_limits_of_the_call_and_of_the_task_win(site):
    site.tasks["probe.record"].apply_async(("limits of the call",), time_limit=8, soft_time_limit=7)
    site.tasks["probe.limited"].delay("limits of the task")
    site.tasks["probe.limited"].apply_async(("limits of both",), time_limit=8, soft_time_limit=7)

    assert site.history.wait_for_end("limits of the call")[0]["time_limits"] == [8, 7]
    assert site.history.wait_for_end("limits of the task")[0]["time_limits"] == [12, 11]
    assert site.history.wait_for_end("limits of both")[0]["time_limits"] == [8, 7]
