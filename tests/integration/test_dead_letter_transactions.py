"""Dead letters and transactions, on PostgreSQL: no row is rolled back, no replay sent twice or too early."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

pytestmark = pytest.mark.integration
CLICKS = 6


@pytest.fixture
def site(valkey, postgres, postgres_database, new_site):
    # what a replay leaves on the broker is not for the worker of the next test
    return new_site(
        valkey.url, database_url=postgres.url(postgres_database), KEY_PREFIX=f"{postgres_database}-"
    )


@pytest.fixture
def dead(site):
    """A dead letter without a worker that would take the message of its replay."""

    def make(key):
        worker = site.start_worker()
        task_id = site.tasks["probe.end_at_once"].delay(key).id
        (row,) = site.dead_letters.wait_for(task_id=task_id)
        worker.terminate()
        worker.wait_for_exit(30)
        return row

    return make


@pytest.mark.parametrize("task", ["probe.leave_transaction_open", "probe.leave_autocommit_off"])
def test_a_task_that_leaves_its_transaction_open_has_its_dead_letter(site, task):
    worker = site.start_worker(processes=1)

    results = [site.tasks[task].delay(f"{task} {number}") for number in range(2)]

    for result in results:
        (row,) = site.dead_letters.wait_for(task_id=result.id)
        assert row["error"].startswith("PlannedError")
    # it does not go down with the process, either
    worker.kill()
    assert len(site.dead_letters.rows()) == 2


def test_a_dead_letter_survives_the_transaction_of_a_caller_who_runs_the_task_himself(site):
    console = site.start_console()

    task_id = console.value("fail_eagerly_in_transaction", key="eager")

    (row,) = site.dead_letters.rows(task_id=task_id)
    assert row["reason"] == "not_retryable"


def test_many_clicks_at_once_send_one_message(site, dead):
    row = dead("clicked")
    consoles = [site.start_console() for _ in range(2)]

    with ThreadPoolExecutor(len(consoles)) as pool:
        answers = pool.map(
            lambda console: console.value("replay_at_once", letter_id=row["id"], clicks=CLICKS), consoles
        )
        told = [answer for answers_of_one in answers for answer in answers_of_one]

    (row,) = site.dead_letters.rows(id=row["id"])
    assert consoles[0].value("waiting") == 1
    assert [answer for answer in told if answer == row["replay_task_id"]] == [row["replay_task_id"]]
    refused = [
        answer for answer in told if "has been replayed already" in answer or "is being replayed" in answer
    ]
    assert len(refused) == len(consoles) * CLICKS - 1


@pytest.mark.parametrize("commits", [True, False])
def test_a_replay_inside_a_transaction_is_sent_after_its_commit(site, dead, commits):
    row = dead("in a transaction")
    console = site.start_console()

    found = console.value("replay_in_transaction", letter_id=row["id"], commits=commits)

    assert found["waiting_inside"] == 0
    assert found["waiting_after"] == int(commits)
    (row,) = site.dead_letters.rows(id=row["id"])
    assert row["status"] == ("replayed" if commits else "open")
