"""Dead letters grouped by fault: an incident is one line, not ten thousand.

By queue, task, reason, fingerprint and status, the table of counts answers. By time, text or ids, the letters
are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from django.db.models import Count, F, Max, Min, QuerySet, Sum
from django.db.models.functions import Left

from taskyard.deadletters.counts import STATUSES
from taskyard.deadletters.filters import DeadLetterFilter
from taskyard.deadletters.models import DeadLetter, FaultCount

Order = Literal["count", "last_seen"]
ERROR_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class FaultGroup:
    """The dead letters of one fault, as far as a filter leaves them.

    Args:
        fingerprint: what they have in common.
        first_seen, last_seen: when the oldest and the newest were written. Where the filter is by neither
        time, text
            nor ids, of all letters of the fault, whatever their status, and purged ones too.
        sample_id, sample_error: the newest of them that the filter leaves, and the start of its error.
        queues: where they came from, sorted.
    """

    fingerprint: str
    task_name: str
    reason: str
    error_type: str
    error_place: str
    count: int
    first_seen: datetime
    last_seen: datetime
    sample_error: str
    sample_id: int
    queues: Sequence[str]


def groups(
    chosen: DeadLetterFilter, *, limit: int = 100, offset: int = 0, order: Order = "count"
) -> list[FaultGroup]:
    """Return the faults of the letters that the filter leaves.

    Args:
        limit, offset: which of them.
        order: "count" (the largest first) or "last_seen" (the newest first).
    """
    found: QuerySet[Any, Any] = _summed(chosen) if chosen.is_counted else _counted(chosen)
    keys = ["-count", "-newest"] if order == "count" else ["-newest"]
    rows = list(found.order_by(*keys, "fingerprint")[offset : offset + limit])
    queues = _queues(chosen, [row["fingerprint"] for row in rows])
    samples = _samples(chosen, rows)
    return [
        _group(row, samples[row["fingerprint"]], sorted(queues.get(row["fingerprint"], ())))
        for row in rows
        if row["fingerprint"] in samples
    ]


def count_groups(chosen: DeadLetterFilter) -> int:
    """Return how many faults there are among the letters that the filter leaves."""
    return (_summed(chosen) if chosen.is_counted else _counted(chosen)).count()


def count_letters(chosen: DeadLetterFilter) -> int:
    """Return how many letters the filter leaves."""
    if not chosen.is_counted:
        return chosen.apply(DeadLetter.objects.all()).order_by().count()
    return _of_faults(chosen).aggregate(count=Sum(_number_of(chosen)))["count"] or 0


def count_by(chosen: DeadLetterFilter, field: Literal["queue", "task_name", "reason"]) -> dict[str, int]:
    """Return how many letters the filter leaves by queue, task or reason, the most first.

    It ignores time, text and ids.
    """
    rows = _of_faults(chosen).values(field).annotate(count=Sum(_number_of(chosen))).filter(count__gt=0)
    return {row[field]: row["count"] for row in rows.order_by("-count", field)}


def _of_faults(chosen: DeadLetterFilter) -> QuerySet[FaultCount]:
    exact = {
        "queue": chosen.queue,
        "task_name": chosen.task,
        "reason": chosen.reason,
        "fingerprint": chosen.fingerprint,
    }
    return FaultCount.objects.filter(**{name: value for name, value in exact.items() if value is not None})


def _number_of(chosen: DeadLetterFilter) -> Any:
    if chosen.status is not None:
        return F(chosen.status)
    return sum((F(status) for status in STATUSES[1:]), start=F(STATUSES[0]))


def _summed(chosen: DeadLetterFilter) -> QuerySet[FaultCount, Any]:
    return (
        _of_faults(chosen)
        .values("fingerprint")
        .annotate(
            count=Sum(_number_of(chosen)),
            first=Min("first_seen"),
            last=Max("last_seen"),
            newest=Max("last_id"),
        )
        .filter(count__gt=0)
    )


def _counted(chosen: DeadLetterFilter) -> QuerySet[DeadLetter, Any]:
    return (
        chosen.apply(DeadLetter.objects.all())
        .order_by()
        .values("fingerprint")
        .annotate(count=Count("pk"), first=Min("created_at"), last=Max("created_at"), newest=Max("pk"))
    )


def _queues(chosen: DeadLetterFilter, fingerprints: list[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    rows = _of_faults(chosen).filter(fingerprint__in=fingerprints)
    if chosen.is_counted:
        rows = rows.alias(count=_number_of(chosen)).exclude(count=0)
    for fingerprint, queue in rows.values_list("fingerprint", "queue").distinct():
        found.setdefault(fingerprint, set()).add(queue)
    return found


def _samples(chosen: DeadLetterFilter, rows: list[dict[str, Any]]) -> dict[str, DeadLetter]:
    """Return the newest letter of each group that the filter leaves."""
    letters = chosen.apply(DeadLetter.objects.all()).annotate(start_of_error=Left("error", ERROR_CHARACTERS))
    letters = letters.defer("error", "traceback", "attempts", "sealed", "sealed_raw", "canvas", "headers")
    newest = letters.filter(pk__in=[row["newest"] for row in rows])
    samples: dict[str, DeadLetter] = {letter.fingerprint: letter for letter in newest}
    for row in rows:
        if row["fingerprint"] not in samples:
            # the newest of all has another status, or is purged
            letter = letters.filter(fingerprint=row["fingerprint"]).order_by("-pk").first()
            if letter is not None:
                samples[row["fingerprint"]] = letter
    return samples


def _group(row: dict[str, Any], sample: Any, queues: list[str]) -> FaultGroup:
    return FaultGroup(
        fingerprint=row["fingerprint"],
        task_name=sample.task_name,
        reason=sample.reason,
        error_type=sample.error_type,
        error_place=sample.error_place,
        count=row["count"],
        first_seen=row["first"],
        last_seen=row["last"],
        sample_error=sample.start_of_error,
        sample_id=sample.pk,
        queues=queues,
    )
