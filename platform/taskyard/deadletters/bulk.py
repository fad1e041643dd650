"""Bulk replay: a sample first, then a person looks, then the rest at a rate.

    sampling ──► waiting ──go_on──► running ──► done          stop: from any of them; go_on takes it up again

The work is done by the task `deadletters.replay_in_bulk` in slices of a few seconds. Each slice is a message
with a number; its end publishes the next one. The row knows how far it is and which slice was the last to
begin, so a message that comes twice is stale or waits, and a slice whose worker dies is taken up by its
redelivery.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import structlog
from django.db import router
from django.db.models import F, Max, QuerySet

from taskyard.clock import SYSTEM_CLOCK, Clock
from taskyard.deadletters import transactions
from taskyard.deadletters.filters import DeadLetterFilter
from taskyard.deadletters.models import BulkReplay, DeadLetter
from taskyard.deadletters.replay import replay
from taskyard.errors import (
    DeadLetterError,
    DeadLetterNotOpenError,
    DeadLetterNotPublishedError,
    PublishError,
)
from taskyard.outcomes import Snooze
from taskyard.tasks.publish import published_now

log = structlog.stdlib.get_logger("taskyard.dead_letter")

State = BulkReplay.State
ACTIVE = (State.SAMPLING, State.RUNNING)
# Short: a worker that stops waits for it, and others have their turn on the queue.
SLICE_SECONDS = 3.0
# A slice writes after each letter, which takes the publish budget at most; after this it has died.
STALE_AFTER = timedelta(seconds=30)
# Its next message is lost, or its queue has a long backlog.
STALLED_AFTER = timedelta(minutes=5)
BROKER_PAUSE_SECONDS = 15.0
MAX_RATE = 1000.0


def start_bulk_replay(
    chosen: DeadLetterFilter, *, actor: str, sample: int = 5, rate_per_second: float = 10
) -> BulkReplay:
    """Begin to replay all open dead letters that a filter finds now; return the row that shows how far it is.

    Args:
        chosen: which; letters that come later are not part of it.
        actor: who asks for it; each letter's audit names them.
        sample: so many are replayed first, the oldest; then it waits for `go_on`. 0 for no sample.
        rate_per_second: at most so many; 0.01 to 1000.

    Raises:
        DeadLetterError: the filter finds none, or asks for others than open ones, or a number is impossible.

    Delivery: each letter is replayed at least once with one task id, or counted as failed and left open. It
    goes on over restarts of workers and the broker.
    """
    _check(chosen, sample, rate_per_second)
    letters = chosen.apply(DeadLetter.objects.all()).order_by()
    total, newest = letters.count(), letters.aggregate(newest=Max("pk"))["newest"]
    if newest is None:
        raise DeadLetterError(
            f"No open dead letter matches the filter {chosen.as_dict()}. Nothing to replay."
        )
    bulk = BulkReplay.objects.create(
        state=State.SAMPLING if sample else State.RUNNING,
        filters=chosen.as_dict(),
        up_to_id=newest,
        sample=sample,
        rate_per_second=rate_per_second,
        total=total,
        started_by=actor[:150],
    )
    _publish_after_commit(bulk, undo=bulk.delete)
    return bulk


def go_on(bulk_id: int, actor: str) -> BulkReplay:
    """Replay the rest, after the sample or after a stop.

    Raises:
        DeadLetterError: there is no such bulk replay, or it is done or running.
    """
    changes = {"state": State.RUNNING, "worked_at": SYSTEM_CLOCK.now(), "finished_at": None}
    before, bulk = _change(bulk_id, (State.WAITING, State.STOPPED), changes, "gone on with")
    log.info("bulk replay goes on", bulk=bulk_id, actor=actor)
    rows = BulkReplay.objects.filter(pk=bulk_id, state=State.RUNNING)
    _publish_after_commit(bulk, undo=lambda: rows.update(state=before.state, finished_at=before.finished_at))
    return bulk


def stop(bulk_id: int, actor: str) -> BulkReplay:
    """Stop it: the letter that is under way is the last. What has been replayed stays replayed.

    Raises:
        DeadLetterError: there is no such bulk replay, or it is done or stopped.
    """
    changes = {"state": State.STOPPED, "finished_at": SYSTEM_CLOCK.now()}
    _, bulk = _change(bulk_id, (*ACTIVE, State.WAITING), changes, "stopped")
    log.info("bulk replay stopped", bulk=bulk_id, actor=actor)
    return bulk


def recover_bulk_replays() -> int:
    """Publish the next slice of those that nobody works on; return how many. For the schedule."""
    stalled = BulkReplay.objects.filter(state__in=ACTIVE, worked_at__lt=SYSTEM_CLOCK.now() - STALLED_AFTER)
    recovered = 0
    for bulk_id, number in stalled.values_list("pk", "slice_number"):
        log.warning("bulk replay has stalled, its next slice is published again", bulk=bulk_id)
        _publish_slice(bulk_id, number + 1)
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
    _publish_slice(bulk_id, number + 1, countdown=max(0.0, begun + len(letters) * pace - clock.monotonic()))
    _mine(bulk).update(is_working=False)


def _left_of_sample(bulk: BulkReplay) -> int:
    return max(0, bulk.sample - bulk.replayed - bulk.failed)


def _check(chosen: DeadLetterFilter, sample: int, rate_per_second: float) -> None:
    if chosen.status != DeadLetter.Status.OPEN:
        raise DeadLetterError(
            f"The filter has status={chosen.status!r}. Only open dead letters can be replayed."
        )
    if sample < 0:
        raise DeadLetterError(f"The bulk replay has sample={sample}. Give 0 or more.")
    if not 0.01 <= rate_per_second <= MAX_RATE:
        raise DeadLetterError(
            f"The bulk replay has rate_per_second={rate_per_second}. Give 0.01 to {MAX_RATE:g}."
        )


def _change(
    bulk_id: int, states: tuple[Any, ...], changes: dict[str, Any], done: str
) -> tuple[BulkReplay, BulkReplay]:
    """Change the row if it is in one of the states; return it as it was and as it is."""
    before = BulkReplay.objects.filter(pk=bulk_id).first()
    if before is None:
        raise DeadLetterError(f"Bulk replay {bulk_id} does not exist.")
    is_changed = BulkReplay.objects.filter(pk=bulk_id, state__in=states).update(**changes)
    bulk = BulkReplay.objects.get(pk=bulk_id)
    if not is_changed:
        raise DeadLetterError(f"Bulk replay {bulk_id} cannot be {done}: {bulk.get_state_display()}.")
    return before, bulk


def _publish_after_commit(bulk: BulkReplay, *, undo: Callable[[], Any]) -> None:
    """Publish the next slice; if the broker does not take it, undo what asked for it."""

    def publish() -> None:
        try:
            _publish_slice(bulk.pk, bulk.slice_number + 1)
        except PublishError as error:
            undo()
            raise DeadLetterNotPublishedError(f"Nothing is replayed: {error}") from error

    transactions.after_commit(publish, using=router.db_for_write(BulkReplay))


def _publish_slice(bulk_id: int, number: int, *, countdown: float | None = None) -> None:
    from taskyard.deadletters.tasks import replay_in_bulk

    with published_now():
        replay_in_bulk.apply_async((bulk_id, number), countdown=countdown)


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
        raise Snooze(STALE_AFTER / 2, "this slice is being worked on, or its worker has just died")
    return False


def _next_letters(bulk: BulkReplay, number: int) -> list[int]:
    letters = DeadLetterFilter.from_dict(bulk.filters).apply(DeadLetter.objects.all())
    rest = letters.filter(pk__gt=bulk.last_id, pk__lte=bulk.up_to_id)
    return list(rest.order_by("pk").values_list("pk", flat=True)[:number])


def _mine(bulk: BulkReplay) -> QuerySet[BulkReplay]:
    """Return the row while this slice is not over: stopped by a person, or taken up by another worker."""
    return BulkReplay.objects.filter(pk=bulk.pk, slice_number=bulk.slice_number, state=bulk.state)


def _replay_one(bulk: BulkReplay, letter_id: int) -> bool:
    """Replay a letter and count it. Return False if this slice is over."""
    if not _mine(bulk).exists():
        return False
    counted: dict[str, Any] = {"last_id": letter_id, "worked_at": SYSTEM_CLOCK.now()}
    try:
        replay(letter_id, actor=bulk.started_by)
        bulk.replayed += 1
        counted["replayed"] = F("replayed") + 1
    except DeadLetterNotPublishedError as error:
        _mine(bulk).update(last_error=str(error), worked_at=SYSTEM_CLOCK.now() - STALE_AFTER)
        raise Snooze(BROKER_PAUSE_SECONDS, "the broker does not take the messages") from error
    except DeadLetterNotOpenError:
        pass  # somebody was quicker
    except DeadLetterError as error:
        bulk.failed += 1
        counted |= {"failed": F("failed") + 1, "last_error": str(error)}
    bulk.last_id = letter_id
    # also where it was stopped meanwhile: the letter is replayed
    BulkReplay.objects.filter(pk=bulk.pk, slice_number=bulk.slice_number).update(**counted)
    return True


def _settle(bulk: BulkReplay, *, is_done: bool) -> None:
    now = SYSTEM_CLOCK.now()
    changes: dict[str, Any] = {"state": State.WAITING}
    if is_done:
        changes = {"state": State.DONE, "finished_at": now}
    _mine(bulk).update(worked_at=now, is_working=False, **changes)
    log.info(
        "bulk replay done" if is_done else "bulk replay waits after its sample",
        bulk=bulk.pk,
        replayed=bulk.replayed,
        failed=bulk.failed,
        total=bulk.total,
    )
