"""Retention: what has been dealt with is deleted after a while, in chunks, so that nobody waits for it."""

from __future__ import annotations

from datetime import timedelta

from django.db import router, transaction
from django.db.models import QuerySet

from taskyard.clock import SYSTEM_CLOCK
from taskyard.deadletters import counts, statistics
from taskyard.deadletters.models import BulkReplay, DeadLetter, DeadLetterAction

RESOLVED = (DeadLetter.Status.REPLAYED, DeadLetter.Status.DISCARDED)
CHUNK_SIZE = 1000


def purge_resolved(*, older_than: timedelta, chunk_size: int = CHUNK_SIZE) -> int:
    """Delete the dead letters that were replayed or discarded longer ago than this, and return how many.

    Their audit goes with them. Open ones are never deleted. Each chunk is a transaction of its own, and
    memory does not grow with the number of rows; what an interruption leaves is deleted by the next call.
    """
    using = router.db_for_write(DeadLetter)
    purged = 0
    while True:
        with transaction.atomic(using=using):
            chunk = list(
                purgeable(older_than=older_than)
                .select_for_update()
                .order_by("resolved_at")
                .values_list("pk", "fingerprint", "queue", "status")[:chunk_size]
            )
            if not chunk:
                break
            ids = [pk for pk, *_ in chunk]
            # Statement by statement: Django's cascade would first read whole rows, tracebacks and all.
            DeadLetterAction.objects.filter(letter_id__in=ids).delete()
            DeadLetter.objects.filter(replay_of_id__in=ids).update(replay_of=None)
            purged += DeadLetter.objects.filter(pk__in=ids)._raw_delete(using)
            for status in RESOLVED:
                places = ((fingerprint, queue) for _, fingerprint, queue, its in chunk if its == status)
                counts.move(places, before=status.value, after=None)
    statistics.refresh(purged)
    return purged


def purgeable(*, older_than: timedelta) -> QuerySet[DeadLetter]:
    """Return the dead letters that `purge_resolved` deletes."""
    return DeadLetter.objects.filter(status__in=RESOLVED, resolved_at__lt=SYSTEM_CLOCK.now() - older_than)


def purge_bulk_replays(*, older_than: timedelta) -> int:
    """Delete the bulk replays that ended longer ago than this, and return how many."""
    ended = BulkReplay.objects.filter(finished_at__lt=SYSTEM_CLOCK.now() - older_than)
    return ended.delete()[0]
