"""What became of the letters of a bulk replay: which of them are dead letters again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from django.db.models import QuerySet

from taskyard.deadletters.filters import DeadLetterFilter
from taskyard.deadletters.models import BulkReplay, DeadLetter

# Beyond this a person does not care, and counting a million rows at each look would be slow.
COUNT_CAP = 10_000
_SHOWN_SAMPLE = 20

Level = Literal["", "good", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class Sampled:
    """One letter of the sample, and the letter that its replay ended as, if it failed."""

    letter: DeadLetter
    came_back: DeadLetter | None


def came_back_count(bulk: BulkReplay) -> int:
    """Return how many of its letters have become dead letters again, up to COUNT_CAP + 1."""
    # From those that came since: they are few, and what was replayed may be a million.
    back = DeadLetter.objects.filter(created_at__gte=bulk.started_at, replay_of__isnull=False)
    chosen = DeadLetterFilter.from_dict(bulk.filters)
    exact = {
        "resolved_by": bulk.started_by,
        "resolved_at__gte": bulk.started_at,
        "pk__lte": bulk.last_id,
        "queue": chosen.queue,
        "task_name": chosen.task,
        "reason": chosen.reason,
        "fingerprint": chosen.fingerprint,
        "created_at__gte": chosen.since,
        "created_at__lt": chosen.until,
    }
    back = back.filter(**{f"replay_of__{name}": value for name, value in exact.items() if value is not None})
    if chosen.search is not None or chosen.ids is not None:
        back = back.filter(replay_of__in=replayed_letters(bulk))
    return back.order_by()[: COUNT_CAP + 1].count()


def came_back_text(count: int) -> str:
    """Return the number as people read it: `more than 10,000` beyond what is counted."""
    return f"more than {COUNT_CAP:,}" if count > COUNT_CAP else f"{count:,}"


def level_of(bulk: BulkReplay, came_back: int) -> Level:
    """Return what the outcome so far calls for: "bad" where most of what was replayed came back."""
    if not bulk.replayed:
        return ""
    if came_back:
        return "bad" if came_back * 2 > min(bulk.replayed, COUNT_CAP) else "warn"
    return "good"


def back_sentence(bulk: BulkReplay, came_back: int) -> str:
    """Return `2 of 2 failed again`; "" while nothing is replayed."""
    if not bulk.replayed:
        return ""
    if not came_back:
        return f"none of {bulk.replayed:,} is a dead letter again so far"
    return f"{came_back_text(came_back)} of {bulk.replayed:,} failed again"


def sample_of(bulk: BulkReplay) -> list[Sampled]:
    """Return the sample with what became of it, the oldest first."""
    size = min(bulk.sample, _SHOWN_SAMPLE)
    # By the time, for which there is an index: by number, all that came before would be read.
    first = replayed_letters(bulk).order_by("resolved_at", "pk")[:size]
    letters = sorted(first, key=lambda letter: letter.pk)
    back = {
        letter.replay_of_id: letter
        for letter in DeadLetter.objects.filter(replay_of__in=letters).order_by("-pk")
    }
    return [Sampled(letter, back.get(letter.pk)) for letter in letters]


def replayed_letters(bulk: BulkReplay) -> QuerySet[DeadLetter]:
    """Return the letters that it has replayed: the audit names who started it, and since when."""
    chosen = replace(DeadLetterFilter.from_dict(bulk.filters), status=None)
    return chosen.apply(DeadLetter.objects.order_by()).filter(
        status__in=(DeadLetter.Status.REPLAYING, DeadLetter.Status.REPLAYED),
        resolved_by=bulk.started_by,
        resolved_at__gte=bulk.started_at,
        pk__lte=bulk.last_id,
    )
