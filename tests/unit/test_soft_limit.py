"""A swallowed soft limit is no success; the signal reaches the task's own code and nothing else."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace

import pytest
from billiard.pool import soft_timeout_sighandler
from celery._state import _task_stack
from celery.exceptions import Retry, SoftTimeLimitExceeded

from taskyard import Exponential, Never
from taskyard.errors import TaskDefinitionError, TimedOutError
from taskyard.tasks.soft_limit import begin_process
from tests.support.runs import do_nothing, run


def reach_limit():
    """What the pool does at the soft limit of the task that this process runs."""
    os.kill(os.getpid(), signal.SIGUSR1)


def swallow():
    try:
        reach_limit()
    except Exception:
        return "as if nothing had happened"
    raise AssertionError("the limit did not reach the task")


class SlowToShowError(Exception):
    """An error at whose recording the limit is reached."""

    def __str__(self):
        reach_limit()
        return "shown"


@pytest.fixture(autouse=True)
def _pool_process():
    """Make this process one of a prefork pool, which begins and then sets Celery's handler."""
    before = signal.getsignal(signal.SIGUSR1)
    begin_process()
    signal.signal(signal.SIGUSR1, soft_timeout_sighandler)
    yield
    signal.signal(signal.SIGUSR1, before)
    begin_process()


@pytest.fixture
def run_in_pool():
    """Run a task with Celery knowing that it runs."""

    def run_known(task):
        _task_stack.push(task)
        try:
            return run(task)
        finally:
            _task_stack.pop()

    return run_known


def test_a_swallowed_limit_is_a_failure_that_says_so_and_where(declare, recorded_failures):
    with pytest.raises(TimedOutError, match="swallowed its soft time limit"):
        run(declare(swallow, retry=Never()))

    (failure,) = recorded_failures
    assert failure.reason == "not_retryable"
    assert failure.error.startswith("TimedOutError: Task 'outcome.probe' swallowed its soft time limit")
    assert "in swallow" in failure.traceback
    assert failure.error_place == ""
    # of the layers that have found it, nothing
    assert "in watch_soft_limit" not in failure.traceback
    assert "tasks/run.py" not in failure.traceback


def test_it_is_retried_as_the_policy_says(declare, recorded_failures):
    with pytest.raises(Retry):
        run(declare(swallow, retry=Exponential(max_retries=1)))

    assert recorded_failures == []


def test_a_policy_that_excludes_the_soft_limit_excludes_it(declare, recorded_failures):
    with pytest.raises(TimedOutError):
        run(declare(swallow, retry=Exponential(never_on=(SoftTimeLimitExceeded,))))

    assert [failure.reason for failure in recorded_failures] == ["not_retryable"]


def test_a_task_that_handles_its_limit_succeeds(declare, recorded_failures):
    assert run(declare(swallow, handles_soft_limit=True)) == "as if nothing had happened"

    assert recorded_failures == []


def test_a_limit_that_is_let_through_stays_what_it_is(declare, recorded_failures):
    with pytest.raises(SoftTimeLimitExceeded) as raised:
        run(declare(reach_limit, retry=Never()))

    assert not isinstance(raised.value, TimedOutError)
    assert [failure.reason for failure in recorded_failures] == ["not_retryable"]


def test_another_error_after_the_limit_stays_what_it_is(declare, recorded_failures):
    def clean_up():
        try:
            reach_limit()
        except SoftTimeLimitExceeded as limit:
            raise LookupError("cleaned up") from limit

    with pytest.raises(LookupError):
        run(declare(clean_up, retry=Never()))

    assert [failure.error for failure in recorded_failures] == ["LookupError: cleaned up"]


def test_the_next_run_is_not_blamed(declare, recorded_failures):
    bodies = iter([swallow, do_nothing])

    def body():
        return next(bodies)()

    task = declare(body, retry=Never())
    with pytest.raises(TimedOutError):
        run(task)

    run(task)

    assert len(recorded_failures) == 1


def test_a_limit_between_two_tasks_ends_nothing(declare):
    task = declare(do_nothing)
    run(task)

    reach_limit()
    run(task)


def test_the_writing_of_a_dead_letter_is_not_interrupted(declare, recorded_failures, run_in_pool):
    def body():
        raise SlowToShowError

    with pytest.raises(SlowToShowError):
        run_in_pool(declare(body, retry=Never()))

    assert [failure.error for failure in recorded_failures] == ["SlowToShowError: shown"]


def test_a_limit_before_the_tasks_own_code_strikes_as_it_begins(declare, recorded_failures, run_in_pool):
    ran = []

    def body():
        ran.append(1)

    def strike_first(_, call_next):
        reach_limit()
        return call_next()

    task = declare(body, retry=Never())
    run(task)
    outer, *inner = task.run_layers
    type(task).run_layers = (outer, strike_first, *inner)

    with pytest.raises(SoftTimeLimitExceeded):
        run_in_pool(task)

    assert ran == [1]


def test_an_eager_task_inside_leaves_the_limit_to_the_one_that_has_it(declare, memory_app, recorded_failures):
    def inner():
        try:
            reach_limit()
        except SoftTimeLimitExceeded:
            return

    memory_app.task(name="outcome.inner")(inner)

    def body():
        return memory_app.tasks["outcome.inner"].apply().state

    with pytest.raises(TimedOutError):
        run(declare(body, retry=Never()))


def test_a_stock_task_is_interrupted_wherever_it_is(declare):
    run(declare(do_nothing))
    _task_stack.push(SimpleNamespace(request=SimpleNamespace(called_directly=False)))
    try:
        with pytest.raises(SoftTimeLimitExceeded):
            reach_limit()
    finally:
        _task_stack.pop()


def test_outside_of_a_pool_process_the_signal_is_left_alone(declare):
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    run(declare(do_nothing))

    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN


def test_the_option_is_true_or_false(declare):
    with pytest.raises(TaskDefinitionError, match=r"handles_soft_limit='yes'\. Write True or False"):
        declare(handles_soft_limit="yes")
