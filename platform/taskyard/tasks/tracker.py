"""What one run of a long task reports: its progress, its checkpoints, and whether it is cancelled.

The database row is for people, and for the next run of the same task. The run that has begun last owns it: an
earlier one that is still at work (its worker was frozen, and the message went to another) writes nothing any
more, and ends at its next report.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import structlog
from celery.exceptions import Ignore, SoftTimeLimitExceeded

from taskyard.errors import ArgumentNotJSONError, ArgumentTooLargeError
from taskyard.tasks import tracked_rows
from taskyard.tasks.cancelling import CancelRequested, find_cancel

log = structlog.stdlib.get_logger("taskyard.task")

# Between two writes of the progress, and between two questions whether the task is cancelled.
INTERVAL_SECONDS = 0.5
# What has failed is not tried again for so long: the task has better things to do.
PAUSE_SECONDS = 10.0
PROGRESS = "PROGRESS"


class Superseded(Ignore):
    """Ends a run whose task has begun again elsewhere: that run goes on, and settles the message."""

    log_event = "task run given up: the task has begun again elsewhere"


class Tracker:
    """The reports of one run.

    Args:
        task: the task, bound to an application of ours.
        request: of the run.
    """

    def __init__(self, task: Any, request: Any) -> None:
        self.task, self.request = task, request
        self.clock = task.app.taskyard.clock
        self.done: int | None = None
        self.total: int | None = None
        self.note = ""
        # When the run began, by which it is told from others of the same task; None until it is stored.
        self.run: datetime | None = None
        self._told: CancelRequested | None = None
        self._has_news = False
        # Monotonic times.
        self._report_at = self._ask_at = self._checkpointed_at = float("-inf")
        self._paused_until: dict[str, float] = {}
        # A checkpoint that is not stored yet, in a tuple of one: it may be None.
        self._kept: tuple[Any, ...] = ()

    # -- what the task calls

    def report(self, done: int, total: int | None, note: str) -> None:
        """Note the progress; at most twice a second, store it and look for a cancellation."""
        self.done, self.note, self._has_news = done, note, True
        if total is not None:
            self.total = total
        self.stop_if_told()
        if self.clock.monotonic() < self._report_at:
            return
        try:
            self.stop_if_cancelled()
            self._store_progress()
        finally:
            # from the end of the write: a slow database must not take all of the task's time
            self._report_at = self.clock.monotonic() + INTERVAL_SECONDS

    def is_cancelled(self) -> bool:
        if self._told is None and self.clock.monotonic() >= self._ask_at:
            self._told = find_cancel(self.task.app, self.request.id)
            self._ask_at = self.clock.monotonic() + INTERVAL_SECONDS
        return self._told is not None

    def stop_if_cancelled(self) -> None:
        self.is_cancelled()
        self.stop_if_told()

    def stop_if_told(self) -> None:
        if self._told is not None:
            # a new one each time: one that is raised twice shows both ways
            raise CancelRequested(self._told.by, self._told.why)

    def checkpoint(self, value: Any, every_seconds: float) -> None:
        """Store the value, so that the next run of this task begins there."""
        _check_checkpoint(self.task, value)
        now = self.clock.monotonic()
        if now - self._checkpointed_at < every_seconds:
            self._kept = (value,)
        else:
            _try_twice(lambda: self._change({"checkpoint": value, **self._progress()}))
            self._kept, self._checkpointed_at = (), now
        self.stop_if_cancelled()

    def resume(self, default: Any) -> Any:
        """Return the last checkpoint of this task, from whichever run."""
        value = (
            self._kept[0] if self._kept else _try_twice(lambda: tracked_rows.checkpoint_of(self.request.id))
        )
        return default if value is None else value

    # -- how the run begins and ends

    def begin(self) -> None:
        self._quietly("the start of the run is not recorded", self._begin)

    def end(self, state: str, **fields: Any) -> None:
        """Store how the run has ended, with its last progress.

        Args:
            state: of `TrackedTask`; "waiting" if it will run again.
            fields: further columns.
        """
        if self.run is None and state == "waiting":
            return  # it had not begun
        if self._kept:
            fields = {"checkpoint": self._kept[0], **fields}
        if state != "waiting":
            fields["finished_at"] = self.clock.now()
        fields |= {**self._progress(), "state": state}
        self._paused_until.clear()
        self._quietly("the end of the run is not recorded", lambda: self._store_end(fields))

    def _begin(self) -> datetime:
        run = self.clock.now()
        tracked_rows.begin(
            self.request.id,
            at=run,
            name=self.task.name,
            queue=(self.request.delivery_info or {}).get("routing_key") or "",
            worker=self.request.hostname or "",
        )
        self.run = run
        return run

    def _store_end(self, fields: dict[str, Any]) -> None:
        if self.run is not None:
            tracked_rows.change(self.request.id, self.run, fields)
        else:
            tracked_rows.save(self.request.id, {"task_name": self.task.name, **fields})

    # -- the database and the results

    def _progress(self) -> dict[str, Any]:
        if not self._has_news:
            return {"updated_at": self.clock.now()}
        note = self.note[: tracked_rows.TEXT_LENGTH]
        return {"updated_at": self.clock.now(), "done": self.done, "total": self.total, "note": note}

    def _store_progress(self) -> None:
        if not tracked_rows.connection().in_atomic_block:
            # in there nobody would see it before the end, and the row would be locked until then
            self._quietly("progress is not recorded", lambda: self._change(self._progress()))
        if (
            not self.task.ignore_result
            if self.request.ignore_result is None
            else not self.request.ignore_result
        ):
            meta = {"done": self.done, "total": self.total, "note": self.note}
            self._quietly(
                "progress is not stored as a result",
                lambda: self.task.update_state(task_id=self.request.id, state=PROGRESS, meta=meta),
            )

    def _change(self, fields: Mapping[str, Any]) -> None:
        """Change the row.

        Raises:
            Superseded: another run has begun since this one.
        """
        if tracked_rows.change(self.request.id, self.run or self._begin(), fields):
            return
        if tracked_rows.exists(self.request.id):
            raise Superseded(f"task {self.request.id} has begun again elsewhere")
        # somebody has deleted the row
        tracked_rows.change(self.request.id, self._begin(), fields)

    def _quietly(self, failure: str, call: Callable[[], Any]) -> None:
        """Call, and log a failure once a while: no task fails for what is only told about it."""
        now = self.clock.monotonic()
        if now < self._paused_until.get(failure, now):
            return
        try:
            _try_twice(call)
        except (Ignore, SoftTimeLimitExceeded):
            raise
        except Exception as error:
            log.warning(failure, error=f"{type(error).__name__}: {error}")
            self._paused_until[failure] = self.clock.monotonic() + PAUSE_SECONDS


def _try_twice(call: Callable[[], Any]) -> Any:
    """Call, and once more where the database connection was lost: by then there is another one."""
    from django.db import InterfaceError, OperationalError

    try:
        return call()
    except (OperationalError, InterfaceError):
        connection = tracked_rows.connection()
        if connection.in_atomic_block:
            raise
        connection.close_if_unusable_or_obsolete()
        return call()


def _check_checkpoint(task: Any, value: Any) -> None:
    """Refuse what would not come back as it is."""
    try:
        text = json.dumps(value, allow_nan=False)
        problem = "" if json.loads(text) == value else "it would come back changed"
    except (TypeError, ValueError, RecursionError) as error:
        text, problem = "", str(error)
    if problem:
        raise ArgumentNotJSONError(
            f"Task {task.name!r}: the checkpoint is not JSON-native: {problem}. "
            "Use str, int, float, bool, None, lists and dicts with string keys."
        )
    limit = task.app.settings.argument_limit_bytes
    if len(text) > limit:
        raise ArgumentTooLargeError(
            f"Task {task.name!r}: the checkpoint is {len(text):,} bytes, the limit is {limit:,} "
            "(ARGUMENT_LIMIT_BYTES). Store a position, not the work."
        )
