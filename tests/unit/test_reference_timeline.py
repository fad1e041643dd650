"""Ordered work: whatever comes in which order, a timeline ends complete and in order."""

import itertools
import random
from collections import deque

import pytest
from django.contrib.auth import get_user_model
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.timeline import services
from tasks.timeline.load import record_activities
from tasks.timeline.models import Activity, Entry, Timeline
from tasks.timeline.recording import record_activity
from tasks.timeline.tasks import LONGEST_SNOOZE_SECONDS, apply_activity, snooze_seconds
from taskyard import Snooze

pytestmark = pytest.mark.django_db
numbers = itertools.count()


def make_user():
    return get_user_model().objects.create(username=f"user-{next(numbers)}")


def record(user, count):
    return [record_activity(user.pk, "posted", f"text {place}") for place in range(1, count + 1)]


def positions(user):
    """The timeline in the order in which it was written."""
    entries = Entry.objects.filter(timeline__user=user).order_by("pk").select_related("activity")
    assert all(entry.position == entry.activity.sequence for entry in entries)
    return [entry.position for entry in entries]


def make_poison(activity):
    Activity.objects.filter(pk=activity.pk).update(kind="from-the-future")


def test_recording_numbers_each_user_separately():
    first, second = make_user(), make_user()

    sequences = [record_activity(user.pk, "joined").sequence for user in (first, second, first)]

    assert sequences == [1, 1, 2]


def test_recording_publishes_with_the_commit(django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks() as published:
        record_activity(make_user().pk, "joined")

    assert len(published) == 1


def test_recording_refuses_a_kind_that_does_not_exist():
    with pytest.raises(ValueError) as caught:
        record_activity(make_user().pk, "postd")

    assert str(caught.value) == (
        "The kind 'postd' of an activity does not exist. Use one of: joined, posted, commented, followed."
    )


def test_a_late_message_brings_its_predecessors_along():
    user = make_user()
    activities = record(user, 3)

    assert services.apply_activity(user.pk, activities[2].pk) == 3
    assert services.apply_activity(user.pk, activities[0].pk) == 0
    assert positions(user) == [1, 2, 3]


def test_an_early_message_leaves_its_successors_alone():
    user = make_user()
    activities = record(user, 3)

    apply_activity(user.pk, activities[0].pk)

    assert positions(user) == [1]


def test_a_duplicate_changes_nothing():
    user = make_user()
    (activity,) = record(user, 1)

    apply_activity(user.pk, activity.pk)
    apply_activity(user.pk, activity.pk)

    assert Entry.objects.get(timeline__user=user).text == "posted “text 1”"


def test_a_missing_predecessor_snoozes_and_applies_what_is_before_it():
    user = make_user()
    activities = record(user, 4)
    Activity.objects.filter(pk=activities[1].pk).update(
        sequence=1000
    )  # as if its commit were still under way

    with pytest.raises(Snooze) as caught:
        apply_activity(user.pk, activities[3].pk)

    assert caught.value.reason == "Activity number 2 is not committed yet."
    assert positions(user) == [1]
    Activity.objects.filter(pk=activities[1].pk).update(sequence=2)
    apply_activity(user.pk, activities[3].pk)
    assert positions(user) == [1, 2, 3, 4]


def test_a_failing_activity_is_retried_in_place_while_its_successors_wait_and_others_go_on():
    user, other = make_user(), make_user()
    activities, others = record(user, 3), record(other, 1)
    make_poison(activities[1])

    with pytest.raises(services.UnknownKind) as failed:
        apply_activity(user.pk, activities[1].pk)
    with pytest.raises(Snooze) as waiting:
        apply_activity(user.pk, activities[2].pk)
    apply_activity(other.pk, others[0].pk)

    assert apply_activity.retry_policy.matches(failed.value)
    assert waiting.value.reason == "Activity number 2 fails with UnknownKind."
    assert (positions(user), positions(other)) == ([1], [1])


def test_a_corrected_activity_ends_the_blockade():
    user = make_user()
    activities = record(user, 3)
    make_poison(activities[1])
    with pytest.raises(Snooze):
        apply_activity(user.pk, activities[2].pk)

    Activity.objects.filter(pk=activities[1].pk).update(kind="joined")
    apply_activity(user.pk, activities[2].pk)

    assert positions(user) == [1, 2, 3]


def test_a_poisonous_activity_is_named():
    user = make_user()
    (activity,) = record(user, 1)
    make_poison(activity)

    with pytest.raises(services.UnknownKind) as caught:
        apply_activity(user.pk, activity.pk)

    assert str(caught.value) == (
        f"Activity {activity.pk} is of the kind 'from-the-future', which has no text. "
        "Correct the activity, or add the kind to TEXTS."
    )


def test_every_kind_has_a_text():
    assert set(services.TEXTS) == set(Activity.Kind)


def test_an_activity_of_another_user_is_not_applied_and_not_retried():
    (activity,) = record(make_user(), 1)

    with pytest.raises(Activity.DoesNotExist) as caught:
        apply_activity(make_user().pk, activity.pk)

    assert not apply_activity.retry_policy.matches(caught.value)


def test_messages_far_behind_wait_longer_but_not_for_ever():
    assert snooze_seconds(0) == snooze_seconds(1) < snooze_seconds(2) < snooze_seconds(50)
    assert snooze_seconds(10**9) == LONGEST_SNOOZE_SECONDS


@st.composite
def histories(draw):
    """Per user a number of activities; then commits and (repeated) deliveries of all of them in any order."""
    counts = draw(st.lists(st.integers(1, 5), min_size=1, max_size=2))
    activities = [(user, place) for user, count in enumerate(counts) for place in range(1, count + 1)]
    deliveries = [key for key in activities for _ in range(draw(st.integers(1, 3)))]
    events = [("commit", key) for key in activities] + [("deliver", key) for key in deliveries]
    return counts, draw(st.permutations(events))


@given(histories())
@settings(max_examples=30, deadline=None)
def test_any_order_of_commits_and_deliveries_ends_in_the_ordered_timeline(history):
    counts, events = history
    users = [make_user() for _ in counts]
    timelines = [Timeline.objects.create(user=user, last_recorded=9) for user in users]
    committed = {}
    queue = deque(events)
    steps = 0

    while queue:
        steps += 1
        assert steps < 2000, "deliveries are snoozed for ever"
        event, key = queue.popleft()
        user, place = key
        if event == "commit":
            committed[key] = Activity.objects.create(timeline=timelines[user], sequence=place, kind="joined")
        elif key not in committed:
            queue.append((event, key))  # a message leaves after its commit, never before
        else:
            try:
                apply_activity(users[user].pk, committed[key].pk)
            except Snooze:
                queue.append((event, key))
            written = positions(users[user])
            assert written == list(range(1, len(written) + 1))

    assert [positions(user) for user in users] == [list(range(1, count + 1)) for count in counts]


def test_invented_activities_continue_the_numbers_and_can_be_applied_in_any_order():
    users = [make_user() for _ in range(5)]
    record_activity(users[0].pk, "joined")
    rng = random.Random(11)

    calls = record_activities(60, rng, user_ids=[user.pk for user in users])
    calls += [
        (user_id, Activity.objects.get(timeline__user_id=user_id, sequence=1).pk) for user_id in [users[0].pk]
    ]
    rng.shuffle(calls)
    for user_id, activity_id in calls:
        apply_activity(user_id, activity_id)

    assert len(calls) == Entry.objects.count() == 61
    for timeline in Timeline.objects.all():
        assert positions(timeline.user) == list(range(1, timeline.last_recorded + 1))
