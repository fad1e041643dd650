"""How far a bulk replay is, and what became of its sample."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from django.db.models import QuerySet

from taskyard.deadletters.admin.listing import written_count
from taskyard.deadletters.bulk import ACTIVE
from taskyard.deadletters.filters import DeadLetterFilter
from taskyard.deadletters.models import BulkReplay, DeadLetter
from taskyard.wording import counted

State = BulkReplay.State
_COUNT_CAP = 10_000
_SHOWN_SAMPLE = 20
_OVER = (State.DONE, State.STOPPED)


@dataclass(frozen=True, slots=True)
class Sampled:
    """One letter of the sample, and the letter that its replay ended as, if it failed."""

    letter: DeadLetter
    came_back: DeadLetter | None


def progress_of(bulk: BulkReplay) -> dict[str, Any]:
    """Return what the progress page shows and its script asks for; JSON-native."""
    dealt_with = min(bulk.replayed + bulk.failed, bulk.total)
    rest = bulk.total - dealt_with
    came_back = came_back_count(bulk)
    sample_back = sum(row.came_back is not None for row in sample_of(bulk))
    return {
        "state": bulk.state,
        "state_text": _state_text(bulk),
        # what the figures alone do not show
        "page": f"{bulk.state} {sample_back}",
        "is_moving": bulk.state in ACTIVE,
        "is_watched": bulk.state not in _OVER,
        "is_over": bulk.state == State.DONE,
        "can_go_on": bulk.state in (State.WAITING, State.STOPPED),
        "can_stop": bulk.state not in _OVER,
        "sample": bulk.sample,
        "total": bulk.total,
        "dealt_with": bulk.total if bulk.state == State.DONE else dealt_with,
        "rest_text": f"{rest:,}",
        "total_text": f"{bulk.total:,}",
        "replayed_text": f"{bulk.replayed:,}",
        "failed_text": f"{bulk.failed:,}",
        "came_back_text": written_count(came_back, "", "").strip(),
        "last_error": bulk.last_error if bulk.state != State.DONE or bulk.failed else "",
    }


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


def sample_sentence(sample: list[Sampled]) -> str:
    """Return `5 replayed, 2 failed again, 3 not back`."""
    failed = sum(row.came_back is not None for row in sample)
    if failed in (0, len(sample)):
        return f"{len(sample)} replayed, {'all failed again' if failed else 'none is back'}"
    return f"{len(sample)} replayed, {failed} failed again, {len(sample) - failed} not back"


def came_back_count(bulk: BulkReplay) -> int:
    """Return how many of its letters have become dead letters again, up to a cap."""
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
    return back.order_by()[: _COUNT_CAP + 1].count()


def replayed_letters(bulk: BulkReplay) -> QuerySet[DeadLetter]:
    """Return the letters that it has replayed: the audit names who started it, and since when."""
    chosen = replace(DeadLetterFilter.from_dict(bulk.filters), status=None)
    return chosen.apply(DeadLetter.objects.order_by()).filter(
        status__in=(DeadLetter.Status.REPLAYING, DeadLetter.Status.REPLAYED),
        resolved_by=bulk.started_by,
        resolved_at__gte=bulk.started_at,
        pk__lte=bulk.last_id,
    )


def _state_text(bulk: BulkReplay) -> str:
    rest = max(bulk.total - bulk.replayed - bulk.failed, 0)
    match bulk.state:
        case State.SAMPLING:
            return f"Replaying the sample of {counted(bulk.sample, 'letter', 'letters')}."
        case State.WAITING:
            return "The sample is replayed. Look at what becomes of it, then go on with the rest or stop."
        case State.RUNNING:
            return f"Replaying: {counted(rest, 'letter', 'letters')} to go."
        case State.STOPPED:
            return f"Stopped: {counted(rest, 'letter', 'letters')} left alone."
        case _:
            return "Done."
