"""Applying activities: one at a time for each user, in the order in which they were recorded."""

from __future__ import annotations

from django.db import transaction

from tasks.timeline.models import Activity, Entry, Timeline

TEXTS = {
    Activity.Kind.JOINED: "joined",
    Activity.Kind.POSTED: "posted “{subject}”",
    Activity.Kind.COMMENTED: "commented on “{subject}”",
    Activity.Kind.FOLLOWED: "follows {subject}",
}


class UnknownKind(Exception):
    """This version does not know what an activity is: the poison of this reference."""


class Blocked(Exception):
    """An earlier activity of the same user has to be applied first.

    Attributes:
        distance: how many activities are before it.
    """

    def __init__(self, reason: str, *, distance: int) -> None:
        self.distance = distance
        super().__init__(reason)


def apply_activity(user_id: int, activity_id: int) -> int:
    """Apply a user's pending activities in order, up to and including this one.

    It does not matter in which order, how often, or in how many processes at once this is called: each step
    takes the next activity under the lock of the user's timeline. A failing activity changes nothing; those
    before it stay applied.

    Args:
        user_id: the ordering key.
        activity_id: the activity that the message is about.

    Returns:
        how many activities this call applied; 0 where an earlier call did the work.

    Raises:
        Activity.DoesNotExist: the user has no such activity.
        Blocked: an earlier activity is not committed yet, or fails. Call again later.
        UnknownKind: this activity itself fails; so would anything else that applying it may raise.
    """
    activity = Activity.objects.get(pk=activity_id, timeline__user_id=user_id)
    applied = 0
    while _apply_next(activity.timeline_id, up_to=activity.sequence):
        applied += 1
    return applied


def describe(activity: Activity) -> str:
    """Return an activity as a line of the timeline.

    Raises:
        UnknownKind: there is no text for it.
    """
    try:
        text = TEXTS[Activity.Kind(activity.kind)]
    except (KeyError, ValueError):
        raise UnknownKind(
            f"Activity {activity.pk} is of the kind {activity.kind!r}, which has no text. "
            f"Correct the activity, or add the kind to TEXTS."
        ) from None
    return text.format(subject=activity.subject)


def _apply_next(timeline_id: int, *, up_to: int) -> bool:
    """Apply one activity in a transaction of its own; False where nothing up to `up_to` is pending."""
    with transaction.atomic():
        # SQLite has no row locks and needs none: its transactions write one at a time.
        timeline = Timeline.objects.select_for_update().get(pk=timeline_id)
        place = timeline.last_applied + 1
        if place > up_to:
            return False
        activity = timeline.activities.filter(sequence=place).first()
        if activity is None:
            raise Blocked(f"Activity number {place} is not committed yet.", distance=up_to - place)
        Entry.objects.create(
            timeline=timeline, activity=activity, position=place, text=_text(activity, up_to=up_to)
        )
        timeline.last_applied = place
        timeline.save(update_fields=["last_applied"])
    return True


def _text(activity: Activity, *, up_to: int) -> str:
    try:
        return describe(activity)
    except Exception as error:
        if activity.sequence == up_to:
            raise
        # The failing one has a message of its own: its attempts are used up, not those of the ones behind.
        raise Blocked(
            f"Activity number {activity.sequence} fails with {type(error).__name__}.",
            distance=up_to - activity.sequence,
        ) from error
