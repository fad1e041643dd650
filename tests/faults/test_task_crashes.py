"""Tasks that take their process down, or try to: the worker lives, and each ends in one dead letter."""

import pytest

from taskyard.transport.queues import delayed, depth, leased
from tests.support import processes
from tests.support.waiting import wait_until

pytestmark = pytest.mark.faults
MAX_WORKER_LOSSES = 2


@pytest.fixture(scope="module")
def site(valkey, shared_site):
    return shared_site(
        valkey.url,
        MAX_WORKER_LOSSES=MAX_WORKER_LOSSES,
        QUEUES={"low": {"soft_time_limit_seconds": 0.5, "time_limit_seconds": 1.5}},
    )


@pytest.fixture(scope="module", autouse=True)
def worker(site):
    return site.start_worker(processes=2)


@pytest.fixture
def assert_worker_works(site, worker, request):
    def check():
        # one after the other: when the second ends, the worker has dealt with all that came before the first
        for number in (1, 2):
            key = f"after {request.node.name} {number}"
            site.tasks["probe.record"].delay(key)
            site.history.wait_for_end(key)
        assert worker.is_running

    return check


def only_dead_letter(site, result):
    """Return its dead letter, once nothing more can come."""
    site.dead_letters.wait_for(task_id=result.id)
    (row,) = site.dead_letters.rows(task_id=result.id)
    return row


def test_a_task_that_kills_its_process_runs_a_bounded_number_of_times(site, worker, assert_worker_works):
    others = [f"beside {number}" for number in range(10)]
    result = site.tasks["probe.die"].delay("deadly")
    for key in others:
        site.tasks["probe.record"].delay(key)

    row = only_dead_letter(site, result)
    for key in others:
        assert len(site.history.wait_for_end(key)) == 1
    assert_worker_works()
    assert row["reason"] == "poison"
    assert len(site.history.starts("deadly")) == 1 + MAX_WORKER_LOSSES
    assert len(site.dead_letters.rows()) == len({row["task_id"] for row in site.dead_letters.rows()})


def test_losses_are_counted_apart_from_retries(site, assert_worker_works):
    """A task far into its retries, as on `critical` after hours, is not lost by its process's death."""
    failures = 5
    result = site.tasks["probe.fail_then_die"].delay("late death", failures)

    row = only_dead_letter(site, result)
    assert_worker_works()
    assert row["reason"] == "poison"
    assert len(site.history.starts("late death")) == failures + 1 + MAX_WORKER_LOSSES


def test_a_lost_process_uses_up_no_retry(site):
    """Killed from outside in its first run, the task still has all the retries of its policy."""
    result = site.tasks["probe.die_then_fail"].delay("died once")

    row = only_dead_letter(site, result)
    assert row["reason"] == "retries_exhausted"
    # one killed, and then one run and its three retries
    assert len(site.history.starts("died once")) == 1 + 4


def test_a_task_whose_process_is_killed_from_outside_runs_again(site, assert_worker_works):
    gate = site.new_gate()
    site.tasks["probe.hold"].apply_async(("killed outside", str(gate)))
    (run,) = site.history.wait_for_start("killed outside")

    processes.kill_pid(run["pid"])
    gate.open()

    assert len(site.history.wait_for_end("killed outside")) == 1
    assert len(site.history.starts("killed outside")) == 2
    assert_worker_works()


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("value_error", "ValueError: a plain error"),
        ("unpicklable", "Unpicklable: holds a lock"),
        ("arguments_required", "ArgumentsRequired: code 7: needs its arguments"),
        ("huge_message", "RuntimeError: xxx"),
        ("memory", "MemoryError: "),
    ],
)
def test_an_error_that_is_hard_to_carry_is_one_dead_letter(site, worker, assert_worker_works, kind, error):
    result = site.tasks["probe.fail"].delay(kind, kind)

    row = only_dead_letter(site, result)
    assert_worker_works()
    assert row["reason"] == "not_retryable"
    assert row["error"].startswith(error)
    assert len(row["error"]) < 1_000_000
    assert len(site.history.starts(kind)) == 1
    assert site.dead_letters.rows(task_id=result.id) == [row]
    assert worker.log_events("task process lost, the task runs again", task_id=result.id) == []


def test_a_task_that_exits_is_treated_as_a_lost_process(site, assert_worker_works):
    result = site.tasks["probe.fail"].delay("exits", "system_exit")

    row = only_dead_letter(site, result)
    assert_worker_works()
    assert row["reason"] == "poison"
    assert len(site.history.starts("exits")) == 1 + MAX_WORKER_LOSSES


@pytest.mark.parametrize(
    ("key", "task", "options", "limit"),
    [
        ("limits of the queue", "probe.overrun", {"queue": "low"}, 1.5),
        ("limits of the task", "probe.overrun_with_limits", {}, 1.5),
        ("limits of the call", "probe.overrun", {"soft_time_limit": 0.3, "time_limit": 1.0}, 1.0),
    ],
)
def test_a_task_that_swallows_its_soft_limit_is_killed_at_the_hard_one(
    site, worker, assert_worker_works, key, task, options, limit
):
    result = site.tasks[task].apply_async((key,), **options)

    row = only_dead_letter(site, result)
    assert_worker_works()
    assert row["reason"] == "time_limit"
    assert len(site.history.starts(key)) == 1
    assert len(site.history.records("soft_limit", key=key)) == 1
    assert site.history.ends(key) == []
    killed = worker.wait_for_log("task killed at its hard time limit", task_id=result.id)
    assert [event["limit_seconds"] for event in killed] == [limit]


def test_nothing_of_these_tasks_is_left_on_the_broker(site, valkey):
    """What has ended in a dead letter is acknowledged: it does not come back when a lease expires."""
    result = site.tasks["probe.overrun_with_limits"].delay("left over")
    only_dead_letter(site, result)

    client = valkey.client()

    wait_until(lambda: leased(client) == {}, timeout_seconds=30, what="no message is leased")
    for queue in site.app.settings.queue_table:
        assert depth(client, queue) == delayed(client, queue) == 0
