"""A worker's connections to PostgreSQL: one a process, kept between tasks, not inherited, replaced if cut."""

import pytest

from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
PROCESSES = 2
QUERY = "SELECT pid FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"


@pytest.fixture
def site(valkey, new_site, postgres, postgres_database):
    return new_site(valkey.url, database_url=postgres.url(postgres_database))


def read_backends(site, name, count):
    """Return the backend of each process, over so many tasks."""
    keys = [f"{name} {number}" for number in range(count)]
    for key in keys:
        site.tasks["probe.read_backend"].delay(key)
    runs = [run for key in keys for run in site.history.wait_for_end(key)]
    assert len(runs) == count
    backends = {
        run["pid"]: {other["backend"] for other in runs if other["pid"] == run["pid"]} for run in runs
    }
    assert all(len(found) == 1 for found in backends.values()), (
        "a process has opened a connection for each task"
    )
    return {pid: found.pop() for pid, found in backends.items()}


def open_backends(postgres, database):
    return {pid for (pid,) in postgres.execute("postgres", QUERY, database)}


def test_each_process_keeps_a_connection_of_its_own(site, postgres, postgres_database):
    worker = site.start_worker(processes=PROCESSES)
    # the parent writes a dead letter, over a connection of its own
    site.dead_letters.wait_for(task_id=site.app.send_task("does.not.exist").id)

    first = read_backends(site, "first", 30)
    worker.kill_children()
    site.app.send_task("does.not.exist")
    second = read_backends(site, "second", 30)

    assert len(set(first.values())) == len(first)
    assert len(set(second.values())) == len(second)
    assert not set(first.values()) & set(second.values())
    assert not set(first) & set(second)
    # and nothing more is open than those and the parent's
    assert len(open_backends(postgres, postgres_database)) <= PROCESSES + 1


def test_a_connection_that_the_server_cuts_is_replaced_before_the_next_task(site, postgres):
    worker = site.start_worker(processes=1)
    ((pid, backend),) = read_backends(site, "before", 3).items()

    postgres.terminate_backend(backend)

    ((same_pid, other_backend),) = read_backends(site, "after", 3).items()
    assert same_pid == pid
    assert other_backend != backend
    assert worker.log_events(level="error") == []


def test_what_should_become_a_dead_letter_waits_for_the_database(site, postgres):
    worker = site.start_worker(processes=1, prefetch=4)
    first = site.app.send_task("does.not.exist")
    site.dead_letters.wait_for(task_id=first.id)

    with postgres.stopped():
        unknown = site.app.send_task("does.not.exist")
        failed = site.tasks["probe.fail"].delay("fails without database", "value_error")
        worker.wait_for_log("dead letter not stored", is_start=True, count=2)

    assert len(site.dead_letters.wait_for(task_id=unknown.id)) == 1
    assert len(site.dead_letters.wait_for(task_id=failed.id)) == 1
    # it ran again, but not as fast as the machine can
    assert len(site.history.starts("fails without database")) == 2


def test_garbage_waits_on_the_broker_for_the_database(site, postgres, valkey):
    worker = site.start_worker(processes=1)

    with postgres.stopped():
        valkey.client().lpush("high", b"garbage")
        worker.wait_for_log("Message on queue high cannot be decoded", is_start=True, level="error")
        assert valkey.client().lrange("high.undecodable", 0, -1) == [b"garbage"]

    site.dead_letters.wait_for(reason="undecodable", queue="high")
    wait_until(
        lambda: not valkey.client().exists("high.undecodable"), timeout_seconds=10, what="the list is empty"
    )
    assert len(site.dead_letters.rows(reason="undecodable", queue="high")) == 1


def test_a_dead_letter_holds_text_that_the_database_refuses(site):
    site.start_worker(processes=1)
    result = site.tasks["probe.fail"].delay("NUL \x00, half a pair \ud800", "value_error")

    (row,) = site.dead_letters.wait_for(task_id=result.id)
    assert row["args"] == ["NUL \ufffd, half a pair \\ud800", "value_error"]
