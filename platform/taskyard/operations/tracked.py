"""Tasks that report progress or were cancelled, as operators see them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from taskyard.models import TrackedTask
from taskyard.tasks.cancellation import DAY_SECONDS, HOLD_SECONDS, CancelOutcome
from taskyard.wording import ago, utc

LIMIT = 100
State = TrackedTask.State


@dataclass(frozen=True, slots=True)
class ShownTask:
    """One row of the list.

    Args:
        progress: as in `340 of 1,000, resizing`.
        percent: None where the task has named no total.
        cancelled: who has cancelled it and why, or "".
        can_be_cancelled: it has not ended, and nobody has cancelled it.
        letter: its newest dead letter, or None.
    """

    row: TrackedTask
    progress: str
    percent: int | None
    updated: str
    updated_ago: str
    started: str
    cancelled: str
    can_be_cancelled: bool
    letter: Any = None


def find_tasks(*, state: str = "", task: str = "", task_id: str = "") -> list[TrackedTask]:
    """Return the rows, what has changed last first: at most LIMIT, and one more where there are more.

    Args:
        state, task, task_id: exactly this one; "" for all.
    """
    wanted = {"state": state, "task_name": task, "task_id": task_id}
    rows = TrackedTask.objects.filter(**{name: value for name, value in wanted.items() if value})
    return list(rows.defer("checkpoint").order_by("-updated_at")[: LIMIT + 1])


def shown_task(row: TrackedTask, now: datetime, letter: Any = None) -> ShownTask:
    """Return what the list shows of a row."""
    return ShownTask(
        row=row,
        progress=progress_of(row),
        percent=_percent(row),
        updated=utc(row.updated_at),
        updated_ago=ago(row.updated_at, now),
        started=utc(row.started_at) if row.started_at else "",
        cancelled=_cancelled(row),
        can_be_cancelled=row.state in (State.WAITING, State.RUNNING) and row.cancel_requested_at is None,
        letter=letter,
    )


def what_follows(outcome: CancelOutcome) -> str:
    """Return what a cancellation has found, and what follows, in one or two sentences."""
    task = " ".join(part for part in ("The task", outcome.task_name, outcome.task_id) if part)
    told = {
        "waiting": f"{task} is cancelled: it will not start.",
        "running": f"{task} is cancelled: its run has been told, and ends soon.",
        "finished": f"{task} had ended before. Nothing follows.",
        "unknown": (
            f"Nothing is known of {task[0].lower()}{task[1:]}: no message, no row, no result. "
            f"If it comes up within {HOLD_SECONDS / DAY_SECONDS:.0f} days, it will not start."
        ),
    }[outcome.state]
    if not outcome.is_confirmed:
        worker = f" {outcome.worker}" if outcome.worker else ""
        told = (
            f"{task} is cancelled, but the worker{worker} that holds it has not answered. "
            "If the run has begun, it may come to its end."
        )
    if not outcome.is_first:
        told += f" It was cancelled before{f' by {outcome.by}' if outcome.by else ''}"
        told += f": {outcome.reason}." if outcome.reason else "."
    return told


def progress_of(row: TrackedTask) -> str:
    """Return how far the task has come, and what it is doing; "" if it has said nothing."""
    figures = ""
    if row.done is not None:
        figures = f"{row.done:,}" if row.total is None else f"{row.done:,} of {row.total:,}"
    return ", ".join(part for part in (figures, row.note) if part)


def _percent(row: TrackedTask) -> int | None:
    if row.done is None or not row.total:
        return None
    return max(0, min(100, row.done * 100 // row.total))


def _cancelled(row: TrackedTask) -> str:
    if row.cancel_requested_at is None:
        return ""
    who = f"by {row.cancelled_by} " if row.cancelled_by else ""
    reason = f": {row.cancel_reason}" if row.cancel_reason else ""
    what = "" if row.state == State.CANCELLED else "to be cancelled, "
    return f"{what}{who}at {utc(row.cancel_requested_at)} UTC{reason}"
