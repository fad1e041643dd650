"""Long tasks and what befalls them: killed, frozen, or without their database."""

from __future__ import annotations

import pytest

from tests.support import processes
from tests.support.tracked_rows import wait_for_row

pytestmark = pytest.mark.faults
# The lease of a dead worker, and the time until another looks.
RETURN_SECONDS = 30
STEPS = 6


@pytest.fixture
def site(own_valkey, new_site):
    return new_site(own_valkey.url)


def publish_up_to(site, key, step):
    """Publish a long task, let it go so far, and return its result and its gate."""
    gate = site.new_gate()
    for number in range(step):
        gate.path.with_name(f"{gate.path.name}.{number}").touch()
    result = site.tasks["probe.long"].delay(key, str(gate), STEPS)
    wait_for_row(site, result.id, lambda row: row["checkpoint"] == step, what=f"checkpoint {step}")
    return result, gate


def steps(site, key):
    return [record["step"] for record in site.history.records("step", key=key)]


def test_the_task_of_a_killed_worker_resumes_at_its_checkpoint(site):
    first = site.start_worker(name="first@test")
    result, gate = publish_up_to(site, "killed worker", 3)

    first.kill()
    gate.open()
    site.start_worker(name="second@test")

    assert result.get(timeout=RETURN_SECONDS) == STEPS
    assert [run["first"] for run in site.history.starts("killed worker")] == [0, 3]
    assert steps(site, "killed worker") == list(range(STEPS))
    row = wait_for_row(site, result.id, lambda row: row["state"] == "succeeded", what="it has succeeded")
    assert (row["worker"], row["checkpoint"]) == ("second@test", None)


def test_the_task_of_a_killed_process_resumes_at_its_checkpoint(site):
    site.start_worker()
    result, gate = publish_up_to(site, "killed process", 2)
    (run,) = site.history.starts("killed process")

    processes.kill_pid(run["pid"])
    gate.open()

    assert result.get(timeout=RETURN_SECONDS) == STEPS
    assert [run["first"] for run in site.history.starts("killed process")] == [0, 2]


def test_of_two_runs_at_once_the_later_one_owns_the_checkpoint(site):
    """A worker freezes for longer than its lease, and thaws while another one runs its task."""
    first = site.start_worker(name="first@test")
    result, gate = publish_up_to(site, "two runs", 2)
    (run,) = site.history.starts("two runs")

    first.freeze()
    processes.freeze(run["pid"])
    second = site.start_worker(name="second@test")
    site.history.wait_for_start("two runs", count=2, timeout_seconds=RETURN_SECONDS)
    wait_for_row(site, result.id, lambda row: row["worker"] == "second@test", what="the second run")
    processes.thaw(run["pid"])
    first.thaw()

    first.wait_for_log("task run given up: the task has begun again elsewhere", task_id=result.id)
    gate.open()
    assert result.get(timeout=RETURN_SECONDS) == STEPS
    assert [run["first"] for run in site.history.starts("two runs")] == [0, 2]
    assert steps(site, "two runs") == list(range(STEPS))
    second.wait_for_log("task succeeded", task_id=result.id)
    assert site.dead_letters.rows(task_id=result.id) == []


def test_progress_goes_on_without_the_database_and_a_checkpoint_waits_for_it(
    own_valkey, new_site, postgres, postgres_database
):
    site = new_site(own_valkey.url, database_url=postgres.url(postgres_database))
    worker = site.start_worker()
    gate = site.new_gate()
    result = site.tasks["probe.long_patient"].delay("no database", str(gate))
    site.history.wait_for_start("no database")

    with postgres.stopped():
        worker.wait_for_log("progress is not recorded", task_id=result.id)
        assert len(site.history.starts("no database")) == 1
        gate.open()
        worker.wait_for_log("task retried", task_id=result.id)

    site.history.wait_for_end("no database")
    assert result.get(timeout=RETURN_SECONDS) == "checkpoint stored"
    columns = "state, done, note"
    (row,) = postgres.execute(
        postgres_database, f"SELECT {columns} FROM taskyard_trackedtask WHERE task_id = %s", result.id
    )
    assert row == ("succeeded", 7, "working")
    assert site.dead_letters.rows(task_id=result.id) == []
