"""Recording activities: the side that numbers and publishes."""

from __future__ import annotations

from django.db import transaction

from tasks.timeline.models import Activity, Timeline
from tasks.timeline.tasks import apply_activity


def record_activity(user_id: int, kind: str, subject: str = "") -> Activity:
    """Store what a user did with the user's next sequence number, and have it applied.

    The number is given under the lock of the user's timeline, which is held until the commit: a later number
    is never visible before an earlier one, and a rollback gives its number back. The publish waits for the
    commit. Should the process die exactly between the two, the user's next activity applies this one.

    Args:
        user_id: who did it; the ordering key.
        kind: one of `Activity.Kind`.
        subject: what it was done to, for people.

    Raises:
        ValueError: the kind does not exist.
        PublishError: the activity is stored, but the broker did not take its task.
    """
    if kind not in Activity.Kind.values:
        kinds = ", ".join(Activity.Kind.values)
        raise ValueError(f"The kind {kind!r} of an activity does not exist. Use one of: {kinds}.")
    with transaction.atomic():
        timeline = lock_timeline(user_id)
        timeline.last_recorded += 1
        timeline.save(update_fields=["last_recorded"])
        activity = Activity.objects.create(
            timeline=timeline, sequence=timeline.last_recorded, kind=kind, subject=subject
        )
        apply_activity.delay(user_id, activity.pk)
    return activity


def lock_timeline(user_id: int) -> Timeline:
    """Return the user's timeline, made if need be, and locked until the end of the transaction."""
    Timeline.objects.get_or_create(user_id=user_id)
    return Timeline.objects.select_for_update().get(user_id=user_id)
