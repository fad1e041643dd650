"""Long tasks on a real worker: progress for people, checkpoints for the next run, and how each run ends."""

from __future__ import annotations

import pytest

from tests.support.tracked_rows import tracked_row, wait_for_row
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def site(valkey, shared_site):
    return shared_site(valkey.url)


@pytest.fixture(scope="module", autouse=True)
def worker(site):
    return site.start_worker(processes=2)


@pytest.fixture
def open_step():
    """Let a long task go on with its next step."""

    def open_it(gate, step):
        gate.path.with_name(f"{gate.path.name}.{step}").touch()

    return open_it


def test_progress_is_seen_in_the_row_and_in_the_result(site, open_step):
    gate = site.new_gate()
    result = site.tasks["probe.long"].delay("seen", str(gate))
    for step in range(3):
        open_step(gate, step)

    row = wait_for_row(site, result.id, lambda row: row["note"] == "step 3", what="it is at step 3")
    wait_until(
        lambda: result.state == "PROGRESS" and result.info["done"] == 3,
        timeout_seconds=10,
        what="so is the result",
    )
    assert result.info == {"done": 3, "total": 10, "note": "step 3"}
    assert (row["state"], row["done"], row["total"]) == ("running", 3, 10)
    assert (row["task_name"], row["queue"]) == ("probe.long", "default")
    assert row["worker"].startswith("all@")
    assert row["checkpoint"] == 3
    gate.open()
    assert result.get(timeout=20) == 10


def test_the_last_report_is_written_and_the_checkpoint_forgotten(site):
    gate = site.new_gate()
    gate.open()
    result = site.tasks["probe.long"].delay("last", str(gate), 5)

    assert result.get(timeout=20) == 5

    row = wait_for_row(site, result.id, lambda row: row["state"] == "succeeded", what="it has succeeded")
    # all within the half second in which one write is made
    assert (row["done"], row["total"], row["note"]) == (4, 5, "step 4")
    assert row["checkpoint"] is None
    assert row["finished_at"] is not None
    assert result.state == "SUCCESS"


def test_a_retried_run_resumes_at_the_checkpoint(site):
    result = site.tasks["probe.long_fail"].delay("retried", 2)

    site.history.wait_for_end("retried")

    assert [run["first"] for run in site.history.starts("retried")] == [0, 1, 2]
    row = wait_for_row(site, result.id, lambda row: row["state"] == "succeeded", what="it has succeeded")
    assert (row["done"], row["checkpoint"]) == (3, None)


def test_a_dead_letter_keeps_its_checkpoint_and_its_replay_resumes_there(site):
    result = site.tasks["probe.long_fail"].delay("replayed", 99)
    site.dead_letters.wait_for(task_id=result.id)
    row = wait_for_row(site, result.id, lambda row: row["state"] == "failed", what="it has failed")
    assert (row["checkpoint"], row["note"]) == (3, "failing")

    replay_id = site.start_console().run("replay_letter", task_id=result.id).value

    runs = site.history.wait_for_start("replayed", count=4)
    assert (runs[3]["task_id"], runs[3]["first"]) == (replay_id, 3)


def test_a_replay_with_other_arguments_begins_anew(site):
    result = site.tasks["probe.long_fail"].delay("edited", 99)
    site.dead_letters.wait_for(task_id=result.id)

    site.start_console().run("replay_letter", task_id=result.id, args=["edited otherwise", 0])

    site.history.wait_for_end("edited otherwise")
    (run,) = site.history.starts("edited otherwise")
    assert run["first"] == 0


def test_a_plain_task_has_no_row(site):
    result = site.tasks["probe.record"].delay("plain")

    site.history.wait_for_end("plain")

    assert tracked_row(site, result.id) is None


class TestSoftLimit:
    def test_a_run_that_swallows_it_and_ends_has_failed_and_is_retried(self, site, worker):
        result = site.tasks["probe.swallow"].delay("swallowed")

        (row,) = site.dead_letters.wait_for(task_id=result.id)
        assert row["reason"] == "retries_exhausted"
        assert row["error"].startswith("TimedOutError: Task 'probe.swallow' swallowed its soft time limit")
        assert len(site.history.ends("swallowed")) == 3
        assert worker.log_events("task succeeded", task_id=result.id) == []

    def test_a_task_that_handles_it_has_succeeded(self, site, worker):
        result = site.tasks["probe.orderly"].delay("orderly")

        worker.wait_for_log("task succeeded", task_id=result.id)
        assert len(site.history.ends("orderly")) == 1
        assert site.dead_letters.rows(task_id=result.id) == []

    def test_the_process_that_was_struck_goes_on(self, site, worker):
        before = set(worker.children())
        for number in range(4):
            site.tasks["probe.orderly"].delay(f"struck {number}")
        for number in range(4):
            site.history.wait_for_end(f"struck {number}")

        assert set(worker.children()) == before
