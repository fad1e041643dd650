"""Dead letters grouped by fault: an incident is one line, not ten thousand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from django.db.models import Count, Max, Min

from taskyard.deadletters.filters import DeadLetterFilter
from taskyard.deadletters.models import DeadLetter

Order = Literal["count", "last_seen"]


@dataclass(frozen=True, slots=True)
class FaultGroup:
    """The dead letters of one fault, as far as a filter leaves them.

    Args:
        fingerprint: what they have in common.
        first_seen, last_seen: when the oldest and the newest were written.
        sample_id, sample_error: the newest of them, and its error.
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
    letters = chosen.apply(DeadLetter.objects.all()).order_by()
    found = list(
        letters.values("fingerprint")
        .annotate(count=Count("pk"), newest=Max("pk"), oldest=Min("pk"))
        .order_by("-count" if order == "count" else "-newest", "-newest")[offset : offset + limit]
    )
    ends = DeadLetter.objects.in_bulk([group[name] for group in found for name in ("newest", "oldest")])
    queues: dict[str, set[str]] = {}
    names = letters.filter(fingerprint__in=[group["fingerprint"] for group in found])
    for fingerprint, queue in names.values_list("fingerprint", "queue").distinct():
        queues.setdefault(fingerprint, set()).add(queue)
    return [
        FaultGroup(
            fingerprint=group["fingerprint"],
            task_name=newest.task_name,
            reason=newest.reason,
            error_type=newest.error_type,
            error_place=newest.error_place,
            count=group["count"],
            first_seen=oldest.created_at,
            last_seen=newest.created_at,
            sample_error=newest.error,
            sample_id=newest.pk,
            queues=sorted(queues.get(group["fingerprint"], ())),
        )
        for group in found
        if (newest := ends.get(group["newest"])) is not None
        and (oldest := ends.get(group["oldest"])) is not None
    ]


def count_groups(chosen: DeadLetterFilter) -> int:
    """Return how many faults there are among the letters that the filter leaves."""
    return chosen.apply(DeadLetter.objects.all()).order_by().values("fingerprint").distinct().count()
