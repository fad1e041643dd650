"""Keeping the counts of faults right: each function is called in the transaction that changes the letters."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from django.db import IntegrityError, router, transaction
from django.db.models import Count, F, QuerySet, Sum

from taskyard.deadletters.models import DeadLetter, FaultCount

STATUSES = tuple(DeadLetter.Status.values)
# Writers of one fault at the same moment: with more rows than this, reading them all gets slower.
SHARDS = 4
# (fingerprint, queue)
Place = tuple[str, str]


def add(letter: DeadLetter) -> None:
    """Count a new letter."""
    shard = os.getpid() % SHARDS
    mine = FaultCount.objects.filter(fingerprint=letter.fingerprint, queue=letter.queue, shard=shard)
    changes: dict[str, Any] = {
        letter.status: F(letter.status) + 1,
        "last_seen": letter.created_at,
        "last_id": letter.pk,
    }
    if mine.update(**changes):
        return
    try:
        with transaction.atomic(using=router.db_for_write(FaultCount)):
            FaultCount.objects.create(
                fingerprint=letter.fingerprint,
                queue=letter.queue,
                shard=shard,
                task_name=letter.task_name,
                reason=letter.reason,
                error_type=letter.error_type,
                error_place=letter.error_place,
                first_seen=letter.created_at,
                last_seen=letter.created_at,
                last_id=letter.pk,
                **{letter.status: 1},
            )
    except IntegrityError:
        mine.update(**changes)


def move(places: Iterable[Place], *, before: str, after: str | None) -> None:
    """Count letters under another status, or, with None, no longer.

    Args:
        places: fingerprint and queue of each letter.
    """
    numbers = Counter(places)
    if not numbers:
        return
    # Locked in one order, so that two that do this at once do not wait for each other.
    rows = list(
        FaultCount.objects.select_for_update()
        .filter(fingerprint__in={fingerprint for fingerprint, _ in numbers})
        .order_by("pk")
        .values_list("pk", "fingerprint", "queue")
    )
    # what is not there, `repair` finds
    row_of = {(fingerprint, queue): pk for pk, fingerprint, queue in reversed(rows)}
    by_number: dict[int, list[int]] = {}
    for place, number in numbers.items():
        if place in row_of:
            by_number.setdefault(number, []).append(row_of[place])
    for number, pks in by_number.items():
        changes = {before: F(before) - number}
        if after is not None:
            changes[after] = F(after) + number
        FaultCount.objects.filter(pk__in=pks).update(**changes)


def repair() -> int:
    """Count again what does not add up, and return how many places that were. For the schedule.

    Only changes past the kit (SQL by hand, `QuerySet.update`, deletion in a shell) make this necessary.
    """
    counted: dict[Place, dict[str, int]] = {}
    rows = DeadLetter.objects.order_by().values_list("fingerprint", "queue", "status")
    for fingerprint, queue, status, number in rows.annotate(number=Count("pk")).iterator():
        counted.setdefault((fingerprint, queue), {})[status] = number
    kept: dict[Place, dict[str, int]] = {}
    sums: QuerySet[FaultCount, Any] = FaultCount.objects.values("fingerprint", "queue").annotate(
        **{f"sum_{status}": Sum(status) for status in STATUSES}
    )
    for row in sums.iterator():
        numbers = {status: row[f"sum_{status}"] for status in STATUSES if row[f"sum_{status}"]}
        kept[row["fingerprint"], row["queue"]] = numbers
    wrong = [place for place in {*counted, *kept} if counted.get(place, {}) != kept.get(place, {})]
    for place in sorted(wrong):
        _count_again(place)
    return len(wrong)


def _count_again(place: Place) -> None:
    fingerprint, queue = place
    letters = DeadLetter.objects.filter(fingerprint=fingerprint, queue=queue)
    with transaction.atomic(using=router.db_for_write(FaultCount)):
        # who is about to count a letter waits; its letter is not visible here yet
        rows = list(
            FaultCount.objects.select_for_update()
            .filter(fingerprint=fingerprint, queue=queue)
            .order_by("shard")
        )
        numbers = _numbers(dict(letters.order_by().values_list("status").annotate(number=Count("pk"))))
        oldest, newest = letters.order_by("pk").first(), letters.order_by("-pk").first()
        if oldest is None or newest is None:
            FaultCount.objects.filter(pk__in=[row.pk for row in rows]).delete()
            return
        if not rows:
            add(oldest)
            add(newest)
            rows = list(FaultCount.objects.filter(fingerprint=fingerprint, queue=queue))
        FaultCount.objects.filter(pk__in=[row.pk for row in rows[1:]]).update(**_numbers({}))
        FaultCount.objects.filter(pk=rows[0].pk).update(**numbers)


def _numbers(found: Mapping[str, int]) -> dict[str, int]:
    return {status: found.get(status, 0) for status in STATUSES}
