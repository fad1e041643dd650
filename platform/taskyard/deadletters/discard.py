"""Discard: a person has decided that it need not run. And open again: a person has changed their mind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from django.db import router, transaction

from taskyard.clock import SYSTEM_CLOCK
from taskyard.deadletters import counts, statistics
from taskyard.deadletters.filters import DeadLetterFilter
from taskyard.deadletters.models import DeadLetter, DeadLetterAction
from taskyard.errors import DeadLetterError

CHUNK_SIZE = 500
REASON_LENGTH = 255


def discard(
    chosen: DeadLetterFilter | Iterable[int], *, actor: str, reason: str, chunk_size: int = CHUNK_SIZE
) -> int:
    """Discard the open dead letters that are chosen, and return how many. Others are left as they are.

    In chunks, each a transaction with its audit: what an interruption leaves is open, and can be discarded by
    the same call.

    Args:
        chosen: a filter, or ids.
        actor: who asks for it, for the audit.
        reason: for those who wonder later; at most 255 characters.
        chunk_size: letters a transaction.

    Raises:
        DeadLetterError: there is no reason, or the filter asks for others than open ones.
    """
    reason = reason.strip()
    if not 0 < len(reason) <= REASON_LENGTH:
        raise DeadLetterError(
            f"A discard has a reason of {len(reason)} characters. Say why, in 1 to {REASON_LENGTH} of them."
        )
    changes = {"discard_reason": reason, "resolved_at": SYSTEM_CLOCK.now(), "resolved_by": actor[:150]}
    return _move(
        _with_status(chosen, DeadLetter.Status.OPEN),
        to=DeadLetter.Status.DISCARDED,
        changes=changes,
        action={"kind": DeadLetterAction.Kind.DISCARD, "actor": actor[:150], "detail": {"reason": reason}},
        chunk_size=chunk_size,
    )


def reopen(chosen: DeadLetterFilter | Iterable[int], *, actor: str) -> int:
    """Open the discarded dead letters that are chosen again, and return how many.

    Raises:
        DeadLetterError: the filter asks for others than discarded ones.
    """
    changes = {"discard_reason": "", "resolved_at": None, "resolved_by": ""}
    return _move(
        _with_status(chosen, DeadLetter.Status.DISCARDED),
        to=DeadLetter.Status.OPEN,
        changes=changes,
        action={"kind": DeadLetterAction.Kind.REOPEN, "actor": actor[:150]},
    )


def _with_status(chosen: DeadLetterFilter | Iterable[int], status: DeadLetter.Status) -> DeadLetterFilter:
    if not isinstance(chosen, DeadLetterFilter):
        return DeadLetterFilter(ids=tuple(chosen), status=status.value)
    default = DeadLetterFilter().status
    if chosen.status not in (None, default, status.value):
        raise DeadLetterError(
            f"The filter has status={chosen.status!r}. Here it can be {status.value!r} only."
        )
    return replace(chosen, status=status.value)


def _move(
    chosen: DeadLetterFilter,
    *,
    to: DeadLetter.Status,
    changes: dict[str, Any],
    action: dict[str, Any],
    chunk_size: int = CHUNK_SIZE,
) -> int:
    moved = 0
    for ids in _chunks(chosen, chunk_size):
        with transaction.atomic(using=router.db_for_write(DeadLetter)):
            mine = list(
                DeadLetter.objects.select_for_update()
                .filter(pk__in=ids, status=chosen.status)
                .order_by("pk")
                .values_list("pk", "fingerprint", "queue")
            )
            DeadLetter.objects.filter(pk__in=[pk for pk, *_ in mine]).update(status=to, **changes)
            DeadLetterAction.objects.bulk_create(DeadLetterAction(letter_id=pk, **action) for pk, *_ in mine)
            places = ((fingerprint, queue) for _, fingerprint, queue in mine)
            counts.move(places, before=str(chosen.status), after=to.value)
        moved += len(mine)
    statistics.refresh(moved)
    return moved


def _chunks(chosen: DeadLetterFilter, size: int) -> Iterator[list[int]]:
    """Return the ids in ascending order, a chunk at a time; those that come meanwhile are not among them."""
    letters = chosen.apply(DeadLetter.objects.all()).order_by("pk")
    newest = DeadLetter.objects.order_by("-pk").values_list("pk", flat=True).first()
    last = 0
    while newest is not None:
        ids = list(letters.filter(pk__gt=last, pk__lte=newest).values_list("pk", flat=True)[:size])
        if not ids:
            return
        yield ids
        last = ids[-1]
