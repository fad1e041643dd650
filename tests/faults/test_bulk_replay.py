"""A bulk replay on real workers, which are killed in the middle: every letter is replayed, as one task."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.waiting import wait_until

pytestmark = pytest.mark.faults
LETTERS, SAMPLE, RATE = 120, 5, 40


@pytest.fixture
def site(valkey, new_site):
    return new_site(valkey.url)


@pytest.fixture
def mended(site):
    """Have many tasks failed, and their cause mended since."""
    marker = site.directory / "mended"
    worker = site.start_worker(processes=2)
    site.tasks["probe.fail_until"].enqueue_many((f"key {n}", str(marker)) for n in range(LETTERS))
    site.dead_letters.wait_for(count=LETTERS, timeout_seconds=60)
    marker.touch()
    return worker


def wait_for_state(console, bulk_id, state, timeout_seconds=90):
    wait_until(
        lambda: console.value("bulk_state", bulk_id=bulk_id)["state"] == state,
        timeout_seconds=timeout_seconds,
        what=f"the bulk replay is {state}",
        pause_seconds=0.2,
    )
    return console.value("bulk_state", bulk_id=bulk_id)


def test_a_sample_then_the_rest_although_the_worker_is_killed(site, mended):
    console = site.start_console()

    bulk_id = console.value("replay_all", chosen={}, sample=SAMPLE, rate=RATE)
    sampled = wait_for_state(console, bulk_id, "waiting")
    wait_until(lambda: len(site.history.records("end")) == SAMPLE, timeout_seconds=30, what="the sample ran")
    console.run("replay_the_rest", bulk_id=bulk_id)
    wait_until(
        lambda: console.value("bulk_state", bulk_id=bulk_id)["replayed"] > LETTERS / 3,
        timeout_seconds=60,
        what="a third is replayed",
    )
    mended.kill()
    site.start_worker(processes=2)
    done = wait_for_state(console, bulk_id, "done")

    assert sampled == {"state": "waiting", "replayed": SAMPLE, "failed": 0, "total": LETTERS}
    assert done["failed"] == 0
    rows = site.dead_letters.rows()
    assert {row["status"] for row in rows} == {"replayed"}
    assert len({row["replay_task_id"] for row in rows}) == len(rows) == LETTERS
    for number in range(LETTERS):
        site.history.wait_for_end(f"key {number}", timeout_seconds=60)
    tasks = Counter((run["key"], run["task_id"]) for run in site.history.records("end"))
    assert len(tasks) == LETTERS
    assert {task_id for _, task_id in tasks} == {row["replay_task_id"] for row in rows}


def test_the_rate_is_kept(site, mended):
    console = site.start_console()

    bulk_id = console.value("replay_all", chosen={"search": "mended"}, sample=0, rate=RATE)
    wait_for_state(console, bulk_id, "done")

    starts = sorted(run["at"] for run in site.history.records("end"))
    assert len(starts) == LETTERS
    # no faster than it says; how much slower is the machine's business
    assert starts[-1] - starts[0] > 0.8 * LETTERS / RATE


def test_it_stops_when_it_is_told_to(site, mended):
    console = site.start_console()
    bulk_id = console.value("replay_all", chosen={}, sample=0, rate=10)
    wait_until(lambda: site.history.records("end"), timeout_seconds=60, what="it has begun")

    console.run("stop_replaying", bulk_id=bulk_id)

    stopped = wait_for_state(console, bulk_id, "stopped")
    replayed = [row for row in site.dead_letters.rows() if row["status"] == "replayed"]
    assert 0 < len(replayed) < LETTERS
    wait_until(
        lambda: len(site.history.records("end")) == len(replayed), timeout_seconds=30, what="all replayed ran"
    )
    assert stopped["total"] == LETTERS
    assert console.value("waiting") == 0
