"""The layer that does not take the end of a task that has swallowed its soft limit for a success.

At the soft limit, a pool process gets a signal, and Celery's handler raises `SoftTimeLimitExceeded` wherever
the process is just then: in the task, but also in the middle of writing a dead letter, or between two tasks,
which ends the process. Ours takes its place. It raises in the task's own code only, and notes that it did.

Only prefork pools have soft limits; elsewhere there is nothing to watch.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from billiard import pool as billiard_pool
from celery._state import get_current_worker_task
from celery.exceptions import SoftTimeLimitExceeded

from taskyard.errors import TaskDefinitionError, TimedOutError

if TYPE_CHECKING:
    from taskyard.tasks.run import Run


class _Watch:
    """Of this process, whose main thread runs one task at a time.

    Attributes:
        is_ours: whether the signal's handler is ours; None until it was looked at.
        request: of the task whose own code runs now.
        error: what the handler has raised in that code.
        early: the request of a task that was reached by the signal while its code did not run.
    """

    def __init__(self) -> None:
        self.is_ours: bool | None = None
        self.request: Any = None
        self.error: SoftTimeLimitExceeded | None = None
        self.early: Any = None


_watch = _Watch()


def begin_process() -> None:
    """A pool process has begun. Celery sets its handler a little later; ours is set with the first task."""
    _watch.__init__()  # type: ignore[misc]


def is_needed(_task: Any) -> bool:
    """Return whether runs of the task go through this layer."""
    return True


def watch_soft_limit(run: Run, call_next: Callable[[], Any]) -> Any:
    if not (_is_watching() if _watch.is_ours is None else _watch.is_ours):
        return call_next()
    request = run.request
    if request.is_eager:  # within another task, whose limit it is
        return call_next()
    try:
        _open(request)
        result = call_next()
    finally:
        _watch.request, error = None, _watch.error
        _watch.error = None
    if error is not None and not run.task.handles_soft_limit:
        raise TimedOutError(
            f"Task {run.task.name!r} swallowed its soft time limit and came to an end: its result does not "
            "count. Let SoftTimeLimitExceeded through, or state handles_soft_limit=True."
        ) from error
    return result


def _open(request: Any) -> None:
    is_late = _watch.early is request
    _watch.error = _watch.early = None
    _watch.request = request
    if is_late:
        _strike()


def _strike() -> None:
    _watch.error = error = SoftTimeLimitExceeded()
    raise error


def _is_watching() -> bool:
    """Set our handler where Celery's is: in a pool process."""
    number = getattr(signal, "SIGUSR1", None)
    if number is None:
        _watch.is_ours = False
    elif signal.getsignal(number) is billiard_pool.soft_timeout_sighandler:
        signal.signal(number, _on_signal)
        _watch.is_ours = True
    else:
        _watch.is_ours = False
    return _watch.is_ours


def _on_signal(*_: Any) -> None:
    if _watch.request is not None:
        _strike()
    task = get_current_worker_task()
    if task is None:
        return
    if not hasattr(task, "run_layers"):  # of a stock application
        raise SoftTimeLimitExceeded
    _watch.early = task.request


def check_declaration(task: Any) -> None:
    """Refuse options that contradict each other or could never work.

    Raises:
        TaskDefinitionError: names the option, its value and what to write instead.
    """
    if not isinstance(task.handles_soft_limit, bool):
        raise TaskDefinitionError(
            f"Task {task.name!r} has handles_soft_limit={task.handles_soft_limit!r}. Write True or False."
        )
