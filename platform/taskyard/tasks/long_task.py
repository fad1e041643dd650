"""The base of tasks that run for long: they report progress, go on where they stopped, and can be stopped."""

from __future__ import annotations

from typing import Any

from taskyard.tasks.base import Task
from taskyard.tasks.cancelling import TRACKER


class LongTask(Task):
    """A task that reports how far it has come, resumes where it stopped, and obeys a cancellation.

    Use it as `@shared_task(base=LongTask, bind=True)`. Each task has a row in the table of tracked tasks,
    shown in the admin. Called as a function, or with `apply()`, it reports nothing and never resumes.

    Delivery: at least once, as for every task. A run that is repeated begins at the last checkpoint; what was
    done after it is done again, so it has to do no harm twice.
    """

    abstract = True
    _is_long = True

    def progress(self, done: int, total: int | None = None, note: str = "") -> None:
        """Report how far the run has come; call it as often as you like.

        Exact in this process, and written at most twice a second; the last report of a run always is. Where
        results are on, the state is `PROGRESS` with `{"done", "total", "note"}`. A database or a result store
        that is away is logged, and no reason to fail.

        Args:
            done: units of work that are done.
            total: units of all; the one that was given last when None.
            note: what is being done, for people; 255 characters are kept.

        Raises:
            Cancel: the task was cancelled, at most half a second ago. Let it through.
        """
        tracker = getattr(self.request, TRACKER, None)
        if tracker is not None:
            tracker.report(done, total, note)

    def is_cancelled(self) -> bool:
        """Return whether the task was cancelled, half a second ago or earlier.

        For a task that has something to put in order before it returns, which then counts as cancelled. The
        broker that is away cancels nothing.
        """
        tracker = getattr(self.request, TRACKER, None)
        return tracker is not None and bool(tracker.is_cancelled())

    def checkpoint(self, value: Any, *, every_seconds: float = 0.0) -> None:
        """Store where a further run of this task has to begin; it is durable when this returns.

        Inside `transaction.atomic()` it is part of the transaction: work and checkpoint commit together.
        Forgotten when the task succeeds; kept over retries, lost workers and the replay of a dead letter.

        Args:
            value: JSON-native, small: a position, not the work. None for no checkpoint.
            every_seconds: keep it in memory if the last one was stored more recently; what is kept is stored
                when the run ends, unless its process is killed.

        Raises:
            Cancel: the task was cancelled; the checkpoint is stored.
            ArgumentNotJSONError, ArgumentTooLargeError: the value cannot be stored.
            django.db.Error: the database did not take it, at two attempts. The retry policy decides.
        """
        tracker = getattr(self.request, TRACKER, None)
        if tracker is not None:
            tracker.checkpoint(value, every_seconds)

    def resume(self, default: Any = None) -> Any:
        """Return the last checkpoint of this task, or the default if it has none.

        Raises:
            django.db.Error: the database does not answer: to begin again would be a guess.
        """
        tracker = getattr(self.request, TRACKER, None)
        return default if tracker is None else tracker.resume(default)
