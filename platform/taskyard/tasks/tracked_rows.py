"""The rows of tasks that are tracked or cancelled: each function is one statement, or two.

Everything raises Django's database errors. The models are imported when they are needed: this module is
loaded before Django's apps are.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from taskyard.clock import SYSTEM_CLOCK, Clock

TEXT_LENGTH = 255
BY_LENGTH = 150
ENDED = ("succeeded", "failed", "cancelled")
# What could still be resumed is kept for so long: its dead letter may be open.
RESUMABLE_FOR = timedelta(days=365)
PURGE_CHUNK = 1000
# A transaction of the task with a checkpoint in it locks the row; whoever cancels does not wait for its end.
LOCK_TIMEOUT = "SET LOCAL lock_timeout = '2s'"


def _rows() -> Any:
    from taskyard.models import TrackedTask

    return TrackedTask.objects


def connection() -> Any:
    """Return this thread's database connection for the rows."""
    from django.db import connections, router

    from taskyard.models import TrackedTask

    return connections[router.db_for_write(TrackedTask)]


def begin(task_id: str, *, at: datetime, name: str, queue: str, worker: str) -> None:
    """Note that a run has begun. Its moment tells this run from others of the same task."""
    fields = {
        "task_name": name[:TEXT_LENGTH],
        "queue": queue[:TEXT_LENGTH],
        "worker": worker[:TEXT_LENGTH],
        "state": "running",
        "started_at": at,
        "updated_at": at,
        "finished_at": None,
    }
    save(task_id, fields)


def save(task_id: str, fields: Mapping[str, Any], *, if_new: Mapping[str, Any] | None = None) -> None:
    """Change the row, or make it with further fields."""
    from django.db import IntegrityError, transaction

    if _rows().filter(pk=task_id).update(**fields):
        return
    try:
        with transaction.atomic(using=connection().alias):
            _rows().create(pk=task_id, **{**(if_new or {}), **fields})
    except IntegrityError:
        _rows().filter(pk=task_id).update(**fields)


def change(task_id: str, run: datetime, fields: Mapping[str, Any]) -> bool:
    """Change the row of a run; return False if another run has begun since, or the row is gone."""
    return bool(_rows().filter(pk=task_id, started_at=run).update(**fields))


def exists(task_id: str) -> bool:
    return bool(_rows().filter(pk=task_id).exists())


def read(task_id: str) -> Any:
    """Return the row, or None."""
    return _rows().filter(pk=task_id).first()


def checkpoint_of(task_id: str) -> Any:
    """Return the stored checkpoint; None if there is none."""
    return _rows().filter(pk=task_id).values_list("checkpoint", flat=True).first()


def request_cancel(task_id: str, *, at: datetime, by: str, reason: str, if_new: Mapping[str, Any]) -> None:
    """Note who has cancelled a task. How it is, an existing row knows better."""
    from django.db import transaction

    fields = {
        "cancel_requested_at": at,
        "cancelled_by": by[:BY_LENGTH],
        "cancel_reason": reason[:TEXT_LENGTH],
        "updated_at": at,
    }
    database = connection()
    is_outermost = not database.in_atomic_block
    with transaction.atomic(using=database.alias):
        if is_outermost and database.vendor == "postgresql":
            with database.cursor() as cursor:
                cursor.execute(LOCK_TIMEOUT)
        save(task_id, fields, if_new=if_new)


def end_cancelled(task_id: str, *, at: datetime, name: str, queue: str, by: str, reason: str) -> None:
    """Note that a cancelled task has ended so, or did not start."""
    who = {"cancelled_by": by[:BY_LENGTH], "cancel_reason": reason[:TEXT_LENGTH], "cancel_requested_at": at}
    fields = {"state": "cancelled", "task_name": name[:TEXT_LENGTH], "queue": queue[:TEXT_LENGTH]}
    save(task_id, {**fields, "updated_at": at, "finished_at": at}, if_new=who)


def end_running(task_id: str, state: str, *, at: datetime) -> None:
    """Note how a task has ended that did not do so itself; nothing if it has no row, or an end."""
    rows = _rows().filter(pk=task_id, state__in=("waiting", "running"))
    rows.update(state=state, updated_at=at, finished_at=at)


def copy_checkpoint(from_id: str, to_id: str) -> bool:
    """Let a task that is not yet published resume where another with the same arguments has stopped.

    Returns:
        False if that one has left no checkpoint, or this one has a row already.
    """
    source = read(from_id)
    if source is None or source.checkpoint is None or exists(to_id):
        return False
    fields = {
        "checkpoint": source.checkpoint,
        "task_name": source.task_name,
        "queue": source.queue,
        "done": source.done,
        "total": source.total,
        "note": source.note,
        "updated_at": SYSTEM_CLOCK.now(),
    }
    save(to_id, fields)
    return True


def purge(older_than: timedelta, *, chunk_size: int = PURGE_CHUNK, clock: Clock = SYSTEM_CLOCK) -> int:
    """Delete the rows of tasks that ended longer ago than this, in chunks, and return how many.

    A failed one that has left a checkpoint is kept for a year, as is one that has never ended.
    """
    from django.db.models import Q

    now = clock.now()
    has_ended = Q(state__in=("succeeded", "cancelled")) | Q(state="failed", checkpoint__isnull=True)
    old = (has_ended & Q(updated_at__lt=now - older_than)) | Q(updated_at__lt=now - RESUMABLE_FOR)
    purged = 0
    while True:
        ids = list(_rows().filter(old).order_by("updated_at").values_list("pk", flat=True)[:chunk_size])
        purged += _rows().filter(old, pk__in=ids).delete()[0]
        if len(ids) < chunk_size:
            return purged
