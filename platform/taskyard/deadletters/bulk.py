"""Bulk replay: a sample first, then a person looks, then the rest at a rate.

    sampling ──► waiting ──go_on──► running ──► done          stop: from any of them; go_on takes it up again

The work is done by the task `deadletters.replay_in_bulk` in slices of a few seconds. Each slice is a message
with a number; its end publishes the next one. The row knows how far it is and which slice was the last to
begin, so a message that comes twice is stale or waits, and a slice whose worker dies is taken up by its
redelivery.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import structlog
from django.db import router
from django.db.models import F, Max

from taskyard.clock import SYSTEM_CLOCK, Clock
from taskyard.deadletters import transactions
from taskyard.deadletters.filters import DeadLetterFilter
from taskyard.deadletters.models import BulkReplay, DeadLetter
from taskyard.deadletters.replay import replay
from taskyard.errors import DeadLetterError, DeadLetterNotOpenError, DeadLetterNotPublishedError
from taskyard.outcomes import Snooze
from taskyard.tasks.publish import published_now

log = structlog.stdlib.get_logger("taskyard.dead_letter")

State = BulkReplay.State
ACTIVE = (State.SAMPLING, State.RUNNING)
# Short: a worker that stops waits for it, and others have their turn on the queue.
SLICE_SECONDS = 3.0
# A slice writes after each letter, which takes the publish budget at most; after this it has died.
STALE_SECONDS = 30.0
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
    _publish_after_commit(bulk.pk)
    return bulk


def go_on(bulk_id: int, actor: str) -> BulkReplay:
    """Replay the rest, after the sample or after a stop.

    Raises:
        DeadLetterError: there is no such bulk replay, or it is done or running.
    """
    changes = {"state": State.RUNNING, "worked_at": SYSTEM_CLOCK.now(), "finished_at": None}
    bulk = _change(bulk_id, (State.WAITING, State.STOPPED), changes, "gone on with")
    log.info("bulk replay goes on", bulk=bulk_id, actor=actor)
    _publish_after_commit(bulk.pk)
    return bulk


def stop(bulk_id: int, actor: str) -> BulkReplay:
    """Stop it: the letter that is under way is the last. What has been replayed stays replayed.

    Raises:
        DeadLetterError: there is no such bulk replay, or it is done or stopped.
    """
    changes = {"state": State.STOPPED, "finished_at": SYSTEM_CLOCK.now()}
    bulk = _change(bulk_id, (*ACTIVE, State.WAITING), changes, "stopped")
    log.info("bulk replay stopped", bulk=bulk_id, actor=actor)
    return bulk


def recover_bulk_replays() -> int:
    """Publish the next slice of those that nobody works on; return how many. For the schedule."""
    stalled = BulkReplay.objects.filter(state__in=ACTIVE, worked_at__lt=SYSTEM_CLOCK.now() - STALLED_AFTER)
    recovered = 0
    for bulk_id in stalled.values_list("pk", flat=True):
        log.warning("bulk replay has stalled, its next slice is published again", bulk=bulk_id)
        _publish_slice(bulk_id)
        recovered += 1
    return recovered


def work_slice(bulk_id: int, number: int, *, clock: Clock = SYSTEM_CLOCK) -> None:
    """Do the slice with this number, and publish the next one.

    Raises:
        Snooze: the slice with this number is being worked on, or was by a worker that has died just now.
    """
    if not _begin(bulk_id, number):
        return
    bulk = BulkReplay.objects.get(pk=bulk_id)
    ends_at = clock.monotonic() + SLICE_SECONDS
    pace = 1.0 / bulk.rate_per_second
    due = clock.monotonic()
    pause = threading.Event()
    while True:
        letter_id = _next_letter(bulk)
        if letter_id is None or (bulk.state == State.SAMPLING and bulk.replayed + bulk.failed >= bulk.sample):
            _settle(bulk, is_done=letter_id is None)
            return
        if (left := due - clock.monotonic()) > 0:
            if due > ends_at:
                _publish_slice(bulk_id, countdown=left)
                return
            pause.wait(left)
        try:
            is_mine = _replay_one(bulk, letter_id)
        except DeadLetterNotPublishedError as error:
            BulkReplay.objects.filter(pk=bulk_id).update(last_error=str(error), worked_at=SYSTEM_CLOCK.now())
            raise Snooze(BROKER_PAUSE_SECONDS, "the broker does not take the messages") from error
        if not is_mine:
            return
        due += pace


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


def _change(bulk_id: int, states: tuple[Any, ...], changes: dict[str, Any], done: str) -> BulkReplay:
    is_changed = BulkReplay.objects.filter(pk=bulk_id, state__in=states).update(**changes)
    bulk = BulkReplay.objects.filter(pk=bulk_id).first()
    if bulk is None:
        raise DeadLetterError(f"Bulk replay {bulk_id} does not exist.")
    if not is_changed:
        raise DeadLetterError(f"Bulk replay {bulk_id} cannot be {done}: {bulk.get_state_display()}.")
    return bulk


def _publish_after_commit(bulk_id: int) -> None:
    transactions.after_commit(lambda: _publish_slice(bulk_id), using=router.db_for_write(BulkReplay))


def _publish_slice(bulk_id: int, *, countdown: float | None = None) -> None:
    from taskyard.deadletters.tasks import replay_in_bulk

    number = BulkReplay.objects.values_list("slice_number", flat=True).get(pk=bulk_id) + 1
    with published_now():
        replay_in_bulk.apply_async((bulk_id, number), countdown=countdown)


def _begin(bulk_id: int, number: int) -> bool:
    """Take the slice; False if it is stale, or the bulk replay has ended."""
    active = BulkReplay.objects.filter(pk=bulk_id, state__in=ACTIVE)
    now = SYSTEM_CLOCK.now()
    if active.filter(slice_number__lt=number).update(slice_number=number, worked_at=now):
        return True
    stale = now - timedelta(seconds=STALE_SECONDS)
    if active.filter(slice_number=number, worked_at__lt=stale).update(worked_at=now):
        return True
    if active.filter(slice_number=number).exists():
        raise Snooze(STALE_SECONDS / 2, "this slice is being worked on, or its worker has died")
    return False


def _next_letter(bulk: BulkReplay) -> int | None:
    letters = DeadLetterFilter.from_dict(bulk.filters).apply(DeadLetter.objects.all())
    rest = letters.filter(pk__gt=bulk.last_id, pk__lte=bulk.up_to_id)
    return rest.order_by("pk").values_list("pk", flat=True).first()


def _replay_one(bulk: BulkReplay, letter_id: int) -> bool:
    """Replay a letter and count it; False if somebody has stopped the bulk replay or taken over the slice."""
    counted = {"last_id": letter_id, "worked_at": SYSTEM_CLOCK.now()}
    try:
        replay(letter_id, actor=bulk.started_by)
        bulk.replayed += 1
        counted["replayed"] = F("replayed") + 1
    except DeadLetterNotPublishedError:
        raise
    except DeadLetterNotOpenError:
        pass  # somebody was quicker
    except DeadLetterError as error:
        bulk.failed += 1
        counted |= {"failed": F("failed") + 1, "last_error": str(error)}
    bulk.last_id = letter_id
    mine = BulkReplay.objects.filter(pk=bulk.pk, slice_number=bulk.slice_number)
    mine.update(**counted)
    return mine.filter(state=bulk.state).exists()


def _settle(bulk: BulkReplay, *, is_done: bool) -> None:
    now = SYSTEM_CLOCK.now()
    changes: dict[str, Any] = {"state": State.WAITING}
    if is_done:
        changes = {"state": State.DONE, "finished_at": now}
    BulkReplay.objects.filter(pk=bulk.pk, state=bulk.state).update(worked_at=now, **changes)
    log.info(
        "bulk replay done" if is_done else "bulk replay waits after its sample",
        bulk=bulk.pk,
        replayed=bulk.replayed,
        failed=bulk.failed,
        total=bulk.total,
    )
