"""The database is stopped while tasks fail: nothing is lost, and each failure has one dead letter later."""

from __future__ import annotations

from collections import Counter

import pytest

from taskyard.transport.queues import delayed, depth, leased
from tests.support.waiting import wait_until

pytestmark = pytest.mark.faults
FAILING = 40
STORE_IS_AWAY = "dead letter not stored, nothing is acknowledged, the store is asked again"


@pytest.fixture
def site(valkey, postgres, postgres_database, new_site):
    return new_site(
        valkey.url,
        database_url=postgres.url(postgres_database),
        MAX_WORKER_LOSSES=0,
        KEY_PREFIX=f"{postgres_database}-",
    )


def on_the_broker(site, valkey):
    """Return how many messages the broker holds, wherever they are."""
    client, prefix = valkey.client(), site.app.settings.key_prefix
    waiting = sum(
        depth(client, queue, prefix=prefix) + delayed(client, queue, prefix=prefix)
        for queue in site.app.settings.queue_table
    )
    return waiting + sum(leased(client, prefix=prefix).values())


def test_every_failure_has_exactly_one_dead_letter_once_the_database_is_back(site, postgres, valkey):
    worker = site.start_worker(processes=2)
    site.tasks["probe.record"].delay("warm")
    site.history.wait_for_end("warm")

    with postgres.stopped():
        published = [site.tasks["probe.fail"].delay(f"fails {n}", "value_error") for n in range(FAILING)]
        published += [
            site.tasks["probe.end_by_reject"].delay("rejected"),
            site.tasks["probe.die"].delay("dies"),
            site.tasks["probe.overrun_with_limits"].delay("overruns"),
            site.app.send_task("probe.record", ("key", "one too many")),
            site.app.send_task("does.not.exist"),
        ]
        for number in range(FAILING):
            site.history.wait_for_start(f"fails {number}")
        for key in ("rejected", "dies", "overruns"):
            site.history.wait_for_start(key)
        worker.wait_for_log("task killed at its hard time limit")
        worker.wait_for_log("task process lost too often")
        worker.wait_for_log(STORE_IS_AWAY, count=2)
        # each is still there: none was acknowledged for good
        wait_until(
            lambda: on_the_broker(site, valkey) == len(published),
            timeout_seconds=30,
            what="the broker holds every message",
        )

    for result in published:
        site.dead_letters.wait_for(task_id=result.id, timeout_seconds=90)
    wait_until(lambda: on_the_broker(site, valkey) == 0, timeout_seconds=60, what="all is acknowledged")
    rows = Counter(row["task_id"] for row in site.dead_letters.rows())
    assert rows == Counter(result.id for result in published)
    # the pool reports such an end twice; published twice, it would double in each round
    killed = worker.log_events("task killed at its hard time limit")
    assert len(killed) == len(site.history.starts("overruns"))
    assert worker.is_running


def test_the_worker_backs_off_and_says_so_without_a_flood(site, postgres, valkey):
    worker = site.start_worker(processes=2)
    for number in range(FAILING):
        site.tasks["probe.record"].delay(f"before {number}")
    site.history.wait_for_end(f"before {FAILING - 1}")

    with postgres.stopped():
        for number in range(FAILING):
            site.tasks["probe.fail"].delay(f"fails {number}", "value_error")
        # every one has run and failed, and some have come again
        wait_until(
            lambda: len(site.history.records("start", task="probe.fail")) > FAILING,
            timeout_seconds=60,
            what="the tasks run again",
        )

    site.dead_letters.wait_for(count=FAILING, timeout_seconds=90)
    runs = Counter(record["key"] for record in site.history.records("start", task="probe.fail"))
    # about 5, 10 and 20 seconds after the first run
    assert max(runs.values()) <= 4
    complaints = worker.log_events(STORE_IS_AWAY)
    # in half a minute, one of each of the two processes
    assert 1 <= len(complaints) <= 4
    assert complaints[0]["next_try_in_seconds"] == 5
    assert "OperationalError" in complaints[0]["error"]
    worker.wait_for_log("the dead letter store is back")
