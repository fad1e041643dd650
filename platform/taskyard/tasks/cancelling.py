"""The layer that obeys a cancellation, and what a run can find out about its own.

The worker's parent process knows what is cancelled, and marks the run of a cancelled task: it does not start.
A long task asks the broker too, before it starts and while it runs. A run that fails is asked about once: its
failure may be how it has obeyed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import structlog

from taskyard.errors import BrokerUnavailableError
from taskyard.outcomes import Cancel
from taskyard.tasks import tracked_rows
from taskyard.tasks.broker_questions import ask_broker
from taskyard.transport import cancels

if TYPE_CHECKING:
    from taskyard.tasks.run import Run

log = structlog.stdlib.get_logger("taskyard.task")

# Set on the request by the worker's parent process: who has cancelled the task, and why.
MARK = "taskyard_cancelled"
# Set on the request of a long task: see `taskyard.tasks.tracking`.
TRACKER = "taskyard_tracker"
ASK_SECONDS = 1.0
# A broker that has not answered is left alone for so long.
PAUSE_SECONDS = 10.0


class CancelRequested(Cancel):
    """The task was cancelled by somebody else than itself.

    Args:
        by, reason: as given to `taskyard.cancel`.
    """

    def __init__(self, by: str = "", reason: str = "") -> None:
        self.by, self.why = by, reason
        text = f"cancelled by {by}" if by else "cancelled"
        super().__init__(f"{text}: {reason}" if reason else text)


class _Questions:
    """Of this process: when the broker may be asked again."""

    paused_until = float("-inf")


def find_cancel(app: Any, task_id: str) -> CancelRequested | None:
    """Ask the broker whether the task was cancelled; None also where it does not answer."""
    if time.monotonic() < _Questions.paused_until:
        return None
    try:
        note = ask_broker(
            app,
            lambda client, prefix: cancels.note_of(client, task_id, prefix=prefix),
            timeout_seconds=ASK_SECONDS,
        )
    except BrokerUnavailableError as error:
        _Questions.paused_until = time.monotonic() + PAUSE_SECONDS
        log.warning("cannot ask whether the task is cancelled", error=str(error))
        return None
    return None if note is None else CancelRequested(note.by, note.reason)


def cancel_behind(run: Run) -> CancelRequested | None:
    """Return the cancellation of a task whose run has failed: then there is no retry and no dead letter."""
    return None if run.request.is_eager else find_cancel(run.task.app, run.request.id)


def note_end(run: Run, cancel: Cancel) -> None:
    """Write into the row of a task that somebody has cancelled how it ended; a long task does so itself."""
    request = run.request
    if not isinstance(cancel, CancelRequested) or getattr(request, TRACKER, None) is not None:
        return
    queue = (request.delivery_info or {}).get("routing_key") or ""
    try:
        tracked_rows.end_cancelled(
            request.id,
            at=run.task.app.taskyard.clock.now(),
            name=run.task.name,
            queue=queue,
            by=cancel.by,
            reason=cancel.why,
        )
    except Exception as error:
        log.warning("the end of the cancelled task is not recorded", error=f"{type(error).__name__}: {error}")


def call_hook(task: Any, reason: str, task_id: str, args: Any, kwargs: Any) -> None:
    """Call the task's `on_cancelled`."""
    try:
        task.on_cancelled(reason, task_id, args, kwargs)
    except Exception:
        log.exception("on_cancelled has failed", task=task.name, task_id=task_id)


def is_needed(_task: Any) -> bool:
    """Return whether runs of the task go through this layer."""
    return True


def obey_cancel(run: Run, call_next: Callable[[], Any]) -> Any:
    request = run.request
    mark = getattr(request, MARK, None)
    if mark is not None:
        raise CancelRequested(mark["by"], mark["reason"])
    tracker = getattr(request, TRACKER, None)
    if tracker is None:
        return call_next()
    tracker.stop_if_cancelled()
    result = call_next()
    # what the task has been told, and then swallowed or obeyed by returning
    tracker.stop_if_told()
    return result


def check_declaration(task: Any) -> None:
    """Refuse options that contradict each other or could never work.

    Raises:
        TaskDefinitionError: names the option, its value and what to write instead.
    """
