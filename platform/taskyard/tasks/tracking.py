"""The layers that record how a run of a long task begins and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from celery.exceptions import Ignore, Reject, Retry

from taskyard.tasks import tracked_rows
from taskyard.tasks.cancelling import TRACKER
from taskyard.tasks.outcome import Cancelled
from taskyard.tasks.tracker import Tracker

if TYPE_CHECKING:
    from taskyard.tasks.run import Run


def is_needed(task: Any) -> bool:
    """Return whether the task is a `LongTask`."""
    return bool(getattr(task, "_is_long", False))


def carry_checkpoint(task: Any, *, from_id: str, to_id: str) -> bool:
    """Let the replay of a dead letter resume where its task has stopped; call it before the publish.

    Returns:
        whether there was anything to carry over: the task is a `LongTask`, and has left a checkpoint.
    """
    return task is not None and is_needed(task) and tracked_rows.copy_checkpoint(from_id, to_id)


def record_end(run: Run, call_next: Callable[[], Any]) -> Any:
    if run.request.is_eager:
        return call_next()
    tracker = Tracker(run.task, run.request)
    setattr(run.request, TRACKER, tracker)
    try:
        result = call_next()
    except Retry:
        tracker.end("waiting")
        raise
    except Reject as reject:
        tracker.end("waiting" if reject.requeue else "failed")
        raise
    except Ignore as ignore:
        # all others leave the row to another run of the task
        if isinstance(ignore, Cancelled):
            tracker.end("cancelled")
        raise
    except Exception:
        tracker.end("failed")
        raise
    tracker.end("succeeded", checkpoint=None)
    return result


def record_start(run: Run, call_next: Callable[[], Any]) -> Any:
    tracker = getattr(run.request, TRACKER, None)
    if tracker is not None:
        tracker.begin()
    return call_next()
