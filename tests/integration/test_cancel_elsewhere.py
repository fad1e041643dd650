"""Cancellation with a key prefix, and with PostgreSQL under a task that holds its row."""

from __future__ import annotations

import pytest

from taskyard import cancel
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


def test_with_a_key_prefix(valkey, new_site):
    site = new_site(valkey.url, KEY_PREFIX="shop:", CANCEL_GRACE_SECONDS=0)
    waiting = site.tasks["probe.part"].delay("waiting", "")
    delayed = site.tasks["probe.part"].apply_async(("delayed", ""), countdown=3600)
    assert cancel(waiting.id, app=site.app).state == "waiting"
    assert cancel(delayed.id, app=site.app).state == "waiting"
    worker = site.start_worker()
    for result in (waiting, delayed):
        worker.wait_for_log("task cancelled", task_id=result.id)
    running = site.tasks["probe.part"].delay("running", str(site.new_gate()))
    site.history.wait_for_start("running")

    outcome = cancel(running.id, app=site.app)

    assert (outcome.state, outcome.is_confirmed, outcome.queue) == ("running", True, "default")
    worker.wait_for_log("task cancelled", task_id=running.id)
    assert site.history.keys("start") == ["running"]
    assert set(valkey.client().zrange("shop:taskyard:cancelled", 0, -1)) == {
        result.id.encode() for result in (waiting, delayed, running)
    }


@pytest.fixture
def postgres_site(valkey, new_site, postgres, postgres_database):
    return new_site(valkey.url, database_url=postgres.url(postgres_database))


def row_of(postgres, database, task_id):
    columns = "state, cancelled_by, checkpoint, done"
    rows = postgres.execute(
        database, f"SELECT {columns} FROM taskyard_trackedtask WHERE task_id = %s", task_id
    )
    return rows[0] if rows else None


def test_a_row_that_the_task_has_locked_holds_up_nobody_for_long(postgres_site, postgres, postgres_database):
    """The checkpoint is part of the task's transaction, which is long."""
    site, gate = postgres_site, postgres_site.new_gate()
    site.start_worker()
    console = site.start_console()
    result = site.tasks["probe.long_transaction"].delay("locked", str(gate))
    site.history.wait_for_start("locked")

    reply = console.run("cancel", task_id=result.id)

    assert (reply.value["state"], reply.value["is_confirmed"]) == ("running", True)
    assert reply.value["is_recorded"] is False
    assert reply.seconds < 5
    gate.open()
    wait_until(
        lambda: row_of(postgres, postgres_database, result.id) == ("cancelled", "", 1, 2),
        timeout_seconds=10,
        what="it has committed its checkpoint, and was cancelled at its next report",
    )


def test_the_row_on_postgresql(postgres_site, postgres, postgres_database):
    site = postgres_site
    result = site.tasks["probe.part"].delay("waiting", "")

    outcome = site.start_console().run("cancel", task_id=result.id).value

    assert (outcome["state"], outcome["is_recorded"]) == ("waiting", True)
    assert row_of(postgres, postgres_database, result.id) == ("waiting", "console", None, None)
    site.start_worker()
    wait_until(
        lambda: row_of(postgres, postgres_database, result.id)[0] == "cancelled",
        timeout_seconds=20,
        what="its row says that it is cancelled",
    )
    assert site.history.starts("waiting") == []


def test_in_a_pool_of_threads_a_task_can_only_be_asked(valkey, new_site):
    site = new_site(valkey.url, CANCEL_GRACE_SECONDS=1)
    worker = site.start_worker(pool="threads", processes=2)
    gate = site.new_gate()
    long = site.tasks["probe.long"].delay("long thread", str(site.new_gate()))
    plain = site.tasks["probe.part"].delay("plain thread", str(gate))
    for key in ("long thread", "plain thread"):
        site.history.wait_for_start(key)

    assert cancel(long.id, app=site.app).state == "running"
    assert cancel(plain.id, app=site.app).state == "running"

    worker.wait_for_log("task cancelled", task_id=long.id)
    worker.wait_for_log("cancelled task goes on: this pool cannot stop it", task_id=plain.id)
    gate.open()
    assert plain.get(timeout=10) == "plain thread"
    assert site.history.ends("long thread") == []
