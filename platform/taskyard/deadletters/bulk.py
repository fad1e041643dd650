"""Bulk replay: a sample first, then a person looks, then the rest at a rate.

    sampling ──► waiting ──go_on──► running ──► done          stop: from any of them; go_on takes it up again

The work is done by the task `deadletters.replay_in_bulk` in slices of a few seconds, see `bulk_slices`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog
from django.db import router
from django.db.models import Count, Max, Min

from taskyard.clock import SYSTEM_CLOCK
from taskyard.deadletters import transactions
from taskyard.deadletters.bulk_slices import ACTIVE, publish_slice
from taskyard.deadletters.filters import DeadLetterFilter
from taskyard.deadletters.models import BulkReplay, DeadLetter
from taskyard.errors import DeadLetterError, DeadLetterNotPublishedError, PublishError

__all__ = ["ACTIVE", "MAX_RATE", "MAX_SAMPLE", "MIN_RATE", "go_on", "start_bulk_replay", "stop"]

log = structlog.stdlib.get_logger("taskyard.dead_letter")

State = BulkReplay.State
MIN_RATE, MAX_RATE = 0.01, 1000.0
MAX_SAMPLE = 1_000_000


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
    found = letters.aggregate(total=Count("pk"), oldest=Min("pk"), newest=Max("pk"))
    if not found["total"]:
        raise DeadLetterError(
            f"No open dead letter matches the filter {chosen.as_dict()}. Nothing to replay."
        )
    bulk = BulkReplay.objects.create(
        state=State.SAMPLING if sample else State.RUNNING,
        filters=chosen.as_dict(),
        up_to_id=found["newest"],
        # from here on, and not from the first row of the table
        last_id=found["oldest"] - 1,
        sample=sample,
        rate_per_second=rate_per_second,
        total=found["total"],
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


def _check(chosen: DeadLetterFilter, sample: int, rate_per_second: float) -> None:
    if chosen.status != DeadLetter.Status.OPEN:
        raise DeadLetterError(
            f"The filter has status={chosen.status!r}. Only open dead letters can be replayed."
        )
    if not 0 <= sample <= MAX_SAMPLE:
        raise DeadLetterError(f"The bulk replay has sample={sample}. Give 0 to {MAX_SAMPLE:,}.")
    if not MIN_RATE <= rate_per_second <= MAX_RATE:
        raise DeadLetterError(
            f"The bulk replay has rate_per_second={rate_per_second}. Give {MIN_RATE:g} to {MAX_RATE:g}."
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
            publish_slice(bulk.pk, bulk.slice_number + 1)
        except PublishError as error:
            undo()
            raise DeadLetterNotPublishedError(f"Nothing is replayed: {error}") from error

    transactions.after_commit(publish, using=router.db_for_write(BulkReplay))
