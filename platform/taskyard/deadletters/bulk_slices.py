"""The work of a bulk replay, slice by slice; see `taskyard.deadletters.bulk` for what it is.

Each slice is a message with a number; its end publishes the next one. The row knows how far it is and which
slice was the last to begin, so a message that comes twice is stale or waits, and a slice whose worker dies is
taken up by its redelivery.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import structlog
from django.db.models import F, QuerySet

from taskyard.clock import SYSTEM_CLOCK, Clock
from taskyard.deadletters import statistics
from taskyard.deadletters.filters import DeadLetterFilter
from taskyard.deadletters.models import BulkReplay, DeadLetter
from taskyard.deadletters.replay import finish_replay, replay
from taskyard.errors import DeadLetterError, DeadLetterNotOpenError, DeadLetterNotPublishedError
from taskyard.outcomes import Snooze
from taskyard.tasks.publish import published_now

log = structlog.stdlib.get_logger("taskyard.dead_letter")

State = BulkReplay.State
ACTIVE = (State.SAMPLING, State.RUNNING)
# Short: a worker that stops waits for it, and others have their turn on the queue.
SLICE_SECONDS = 3.0
# A slice writes with each letter, which takes the publish budget at most; after this it has died.
STALE_AFTER = timedelta(seconds=15)
# Its next message is lost, or its queue has a long backlog.
STALLED_AFTER = timedelta(minutes=5)
BROKER_PAUSE_SECONDS = 15.0


def publish_slice(bulk_id: int, number: int, *, countdown: float | None = None) -> None:
    """Have a worker do the slice.

    Raises:
        PublishError: the broker did not take it.
    """
    from taskyard.deadletters.tasks import replay_in_bulk

    with published_now():
        replay_in_bulk.apply_async((bulk_id, number), countdown=countdown)


def recover_bulk_replays() -> int:
    """Publish the next slice of those that nobody works on; return how many. For the schedule."""
    stalled = BulkReplay.objects.filter(state__in=ACTIVE, worked_at__lt=SYSTEM_CLOCK.now() - STALLED_AFTER)
    recovered = 0
    for bulk_id, number in stalled.values_list("pk", "slice_number"):
        log.warning("bulk replay has stalled, its next slice is published again", bulk=bulk_id)
        publish_slice(bulk_id, number + 1)
        recovered += 1
    return recovered


def work_slice(
    bulk_id: int, number: int, *, seconds: float = SLICE_SECONDS, clock: Clock = SYSTEM_CLOCK
) -> None:
    """Do the slice with this number, and publish the next one.

    Args:
        seconds: how long it takes, as far as the rate decides that.
        clock: for the rate.

    Raises:
        Snooze: the slice with this number is being worked on, or was by a worker that has died just now.
    """
    if not _begin(bulk_id, number):
        return
    bulk = BulkReplay.objects.get(pk=bulk_id)
    _finish_what_was_begun(bulk)
    pace = 1.0 / bulk.rate_per_second
    wanted = max(1, round(seconds * bulk.rate_per_second))
    if bulk.state == State.SAMPLING:
        wanted = min(wanted, _left_of_sample(bulk))
    letters = _next_letters(bulk, wanted)
    begun = clock.monotonic()
    pause = threading.Event()
    for place, letter_id in enumerate(letters):
        pause.wait(max(0.0, begun + place * pace - clock.monotonic()))
        if not _replay_one(bulk, letter_id):
            return
    if len(letters) < wanted or (bulk.state == State.SAMPLING and _left_of_sample(bulk) == 0):
        _settle(bulk, is_done=not _next_letters(bulk, 1))
        return
    publish_slice(bulk_id, number + 1, countdown=max(0.0, begun + len(letters) * pace - clock.monotonic()))
    _mine(bulk).update(is_working=False)


def _left_of_sample(bulk: BulkReplay) -> int:
    return max(0, bulk.sample - bulk.replayed - bulk.failed)


def _begin(bulk_id: int, number: int) -> bool:
    """Take the slice; False if it is stale, or the bulk replay has ended."""
    active = BulkReplay.objects.filter(pk=bulk_id, state__in=ACTIVE)
    now = SYSTEM_CLOCK.now()
    if active.filter(slice_number__lt=number).update(slice_number=number, is_working=True, worked_at=now):
        return True
    unfinished = active.filter(slice_number=number, is_working=True)
    if unfinished.filter(worked_at__lt=now - STALE_AFTER).update(worked_at=now):
        return True
    if unfinished.exists():
        raise Snooze(STALE_AFTER / 3, "this slice is being worked on, or its worker has just died")
    return False


def _next_letters(bulk: BulkReplay, number: int) -> list[int]:
    letters = DeadLetterFilter.from_dict(bulk.filters).apply(DeadLetter.objects.all())
    rest = letters.filter(pk__gt=bulk.last_id, pk__lte=bulk.up_to_id)
    return list(rest.order_by("pk").values_list("pk", flat=True)[:number])


def _mine(bulk: BulkReplay) -> QuerySet[BulkReplay]:
    """Return the row while this slice is not over: stopped by a person, or taken up by another worker."""
    return BulkReplay.objects.filter(pk=bulk.pk, slice_number=bulk.slice_number, state=bulk.state)


def _finish_what_was_begun(bulk: BulkReplay) -> None:
    """Replay and count the letter at which the worker of the slice before has died."""
    if bulk.current_id <= bulk.last_id:
        return
    try:
        is_replayed = finish_replay(bulk.current_id, actor=bulk.started_by)
    except DeadLetterNotPublishedError as error:
        raise _pause(bulk, error) from error
    except DeadLetterError:
        return  # it is open again, and among the next letters
    if is_replayed:
        _count(bulk, bulk.current_id, replayed=1)


def _replay_one(bulk: BulkReplay, letter_id: int) -> bool:
    """Replay a letter and count it. Return False if this slice is over."""
    if not _mine(bulk).update(current_id=letter_id, worked_at=SYSTEM_CLOCK.now()):
        return False
    try:
        replay(letter_id, actor=bulk.started_by)
        _count(bulk, letter_id, replayed=1)
    except DeadLetterNotPublishedError as error:
        raise _pause(bulk, error) from error
    except DeadLetterNotOpenError:
        _count(bulk, letter_id)  # somebody was quicker
    except DeadLetterError as error:
        _count(bulk, letter_id, failed=1, last_error=str(error))
    return True


def _count(bulk: BulkReplay, letter_id: int, *, replayed: int = 0, failed: int = 0, **changes: Any) -> None:
    bulk.last_id = letter_id
    bulk.replayed += replayed
    bulk.failed += failed
    # also where it was stopped meanwhile: the letter is replayed
    BulkReplay.objects.filter(pk=bulk.pk, slice_number=bulk.slice_number).update(
        last_id=letter_id,
        worked_at=SYSTEM_CLOCK.now(),
        replayed=F("replayed") + replayed,
        failed=F("failed") + failed,
        **changes,
    )


def _pause(bulk: BulkReplay, error: DeadLetterNotPublishedError) -> Snooze:
    """Have the slice come again later; none of its letters is to blame."""
    _mine(bulk).update(last_error=str(error), worked_at=SYSTEM_CLOCK.now() - STALE_AFTER)
    return Snooze(BROKER_PAUSE_SECONDS, "the broker does not take the messages")


def _settle(bulk: BulkReplay, *, is_done: bool) -> None:
    now = SYSTEM_CLOCK.now()
    changes: dict[str, Any] = {"state": State.WAITING}
    if is_done:
        changes = {"state": State.DONE, "finished_at": now}
    _mine(bulk).update(worked_at=now, is_working=False, **changes)
    if is_done:
        statistics.refresh(bulk.replayed)
    log.info(
        "bulk replay done" if is_done else "bulk replay waits after its sample",
        bulk=bulk.pk,
        replayed=bulk.replayed,
        failed=bulk.failed,
        total=bulk.total,
    )
