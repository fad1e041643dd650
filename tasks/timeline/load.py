"""Input for demonstrations and load tests: invented activities."""

from __future__ import annotations

import random
from collections.abc import Sequence

from django.db import transaction

from tasks.timeline.models import Activity, Timeline

BATCH_SIZE = 1000
SUBJECTS = ("A quiet morning", "Invented news", "Sample recipes", "On placeholders", "Notes from nowhere")


def record_activities(count: int, rng: random.Random, *, user_ids: Sequence[int]) -> list[tuple[int, int]]:
    """Insert activities of these users, numbered in the order of each user. Nothing is published.

    Args:
        count: how many.
        rng: the same seed makes the same activities.
        user_ids: who did them; one user gets many, as in life.

    Returns:
        `(user_id, activity_id)` in the order of recording, as `apply_activity.enqueue_many` takes them.
    """
    # Quadratic: a few users are busy, most are not.
    authors = [user_ids[int(len(user_ids) * rng.random() ** 2)] for _ in range(count)]
    with transaction.atomic():
        timelines = _locked_timelines(sorted(set(authors)))
        activities = [_next_activity(timelines[user_id], rng) for user_id in authors]
        Timeline.objects.bulk_update(timelines.values(), ["last_recorded"], batch_size=BATCH_SIZE)
        Activity.objects.bulk_create(activities, batch_size=BATCH_SIZE)
    return [(user_id, activity.pk) for user_id, activity in zip(authors, activities, strict=True)]


def _locked_timelines(user_ids: Sequence[int]) -> dict[int, Timeline]:
    Timeline.objects.bulk_create(
        [Timeline(user_id=user_id) for user_id in user_ids], ignore_conflicts=True, batch_size=BATCH_SIZE
    )
    # In the order of the key, so that two loads at once cannot wait for each other.
    locked = Timeline.objects.select_for_update().filter(user_id__in=user_ids).order_by("user_id")
    return {timeline.user_id: timeline for timeline in locked}


def _next_activity(timeline: Timeline, rng: random.Random) -> Activity:
    timeline.last_recorded += 1
    is_first = timeline.last_recorded == 1
    kind = Activity.Kind.JOINED if is_first else rng.choice(Activity.Kind.values[1:])
    return Activity(
        timeline=timeline,
        sequence=timeline.last_recorded,
        kind=kind,
        subject="" if is_first else rng.choice(SUBJECTS),
    )
