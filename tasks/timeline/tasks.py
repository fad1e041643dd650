"""Ordered: one user's activities in order, on a queue that promises no order."""

from __future__ import annotations

from celery import shared_task
from django.core.exceptions import ObjectDoesNotExist

from tasks.timeline import services
from taskyard import Exponential, Snooze

DAY_SECONDS = 24 * 3600
# Each place behind the one that blocks waits this much longer, so that a long row does not ask all the time.
SNOOZE_SECONDS = 2.0
LONGEST_SNOOZE_SECONDS = 300.0


@shared_task(
    name="timeline.apply_activity",
    queue="default",
    # The key waits for the failing activity, so it is tried for a day before a person has to look.
    retry=Exponential(max_retries=None, max_age_seconds=DAY_SECONDS, never_on=(ObjectDoesNotExist,)),
    idempotent="natural",
    idempotent_reason="an activity at or before the last applied sequence number is not applied again",
)
def apply_activity(user_id: int, activity_id: int) -> None:
    """Apply a user's pending activities up to this one.

    Ordering key: `user_id`. The messages may come in any order and more than once; the sequence numbers and
    the lock on the user's timeline make the order. A failing activity is retried in place: the user's later
    activities wait without using up attempts, other users go on.
    """
    try:
        services.apply_activity(user_id, activity_id)
    except services.Blocked as blocked:
        raise Snooze(snooze_seconds(blocked.distance), str(blocked)) from blocked


def snooze_seconds(distance: int) -> float:
    """Return how long a message waits that has `distance` activities before it."""
    return min(SNOOZE_SECONDS * max(1, distance), LONGEST_SNOOZE_SECONDS)
