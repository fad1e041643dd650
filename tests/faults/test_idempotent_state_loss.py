"""The state store goes away: a task refuses to run or runs, as declared, and what it has done is recorded."""

from __future__ import annotations

import pytest

from tests.support.fixtures import running
from tests.support.servers import ValkeyServer

pytestmark = pytest.mark.faults
LEASE_SECONDS = 6
UNRECORDED = "effect done but not recorded, a duplicate would have it again"


@pytest.fixture
def site(valkey, own_valkey, new_site):
    valkey.client().flushall()
    return new_site(valkey.url, STATE_URL=own_valkey.url, LEASE_SECONDS=LEASE_SECONDS)


@pytest.fixture
def worker(site):
    return site.start_worker()


def test_a_task_that_refuses_runs_when_the_store_is_back(site, worker, own_valkey):
    gate = site.new_gate()
    gate.open()
    own_valkey.kill()
    result = site.tasks["probe.once"].delay("refuses", str(gate))
    (line, *_) = worker.wait_for_log("state store away, the run is put off", task_id=result.id)
    assert "does not answer" in line["error"]
    assert site.history.starts("refuses") == []

    own_valkey.restart()

    assert result.get(timeout=30)["task_id"] == result.id
    (run,) = site.history.ends("refuses")
    assert (run["retries"], run["is_held"]) == (0, True)
    assert site.dead_letters.rows() == []


def test_a_task_that_runs_anyway_knows_that_it_has_no_claim(site, worker, own_valkey):
    gate = site.new_gate()
    gate.open()
    own_valkey.kill()

    result = site.tasks["probe.once_or_skip"].delay("runs", str(gate))

    assert result.get(timeout=30) == {"task_id": result.id, "fence": 0}
    assert [run["is_held"] for run in site.history.ends("runs")] == [False]
    assert worker.log_events("state store away, the task runs without its claim", task_id=result.id)
    assert worker.log_events(UNRECORDED, task_id=result.id)


def test_with_the_broker_away_too_the_message_is_put_back(own_valkey, new_site, tmp_path):
    with running(ValkeyServer(tmp_path / "second")) as broker:
        site = new_site(broker.url, STATE_URL=own_valkey.url)
        worker = site.start_worker()
        gate = site.new_gate()
        gate.open()
        # its answer is waited for: the broker goes away meanwhile
        own_valkey.freeze()
        result = site.tasks["probe.once"].delay("waits", str(gate))
        worker.wait_for_log("task started", task_id=result.id)
        broker.kill()
        worker.wait_for_log("task put back", task_id=result.id)
        assert site.history.starts("waits") == []

        broker.restart()
        own_valkey.thaw()

        site.history.wait_for_end("waits", timeout_seconds=60)
        assert [run["retries"] for run in site.history.starts("waits")] == [0]
        assert site.dead_letters.rows() == []


def test_a_store_that_is_back_within_the_lease_is_told_the_end(site, worker, own_valkey):
    gate = site.new_gate()
    first = site.tasks["probe.once"].delay("told", str(gate))
    site.history.wait_for_start("told")
    own_valkey.kill()
    gate.open()
    site.history.wait_for_end("told")

    own_valkey.restart()

    second = site.tasks["probe.once"].delay("told", str(gate))
    assert (
        second.get(timeout=30) == first.get(timeout=30) == {"task_id": first.id, **only_fence(site, "told")}
    )
    assert len(site.history.starts("told")) == 1
    assert worker.log_events(UNRECORDED) == []


def test_a_store_that_stays_away_makes_no_failure_of_what_is_done(site, worker, own_valkey):
    gate = site.new_gate()
    first = site.tasks["probe.once"].delay("untold", str(gate))
    site.history.wait_for_start("untold")
    own_valkey.kill()

    gate.open()

    assert first.get(timeout=30)["task_id"] == first.id
    (line,) = worker.wait_for_log(UNRECORDED, task_id=first.id)
    assert line["level"] == "error"
    assert len(site.history.starts("untold")) == 1
    assert site.dead_letters.rows() == []


def only_fence(site, key):
    (run,) = site.history.starts(key)
    return {"fence": run["fence"]}
