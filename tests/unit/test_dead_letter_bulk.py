"""Bulk replay: a sample, a person, the rest; each letter once, whatever becomes of messages and workers."""

from __future__ import annotations

from datetime import timedelta

import pytest
from celery.signals import after_task_publish, before_task_publish
from django.utils import timezone

from taskyard.deadletters.bulk import go_on, start_bulk_replay, stop
from taskyard.deadletters.bulk_slices import recover_bulk_replays, work_slice
from taskyard.deadletters.discard import discard
from taskyard.deadletters.filters import DeadLetterFilter
from taskyard.deadletters.models import BulkReplay, DeadLetter, DeadLetterAction
from taskyard.errors import DeadLetterError, DeadLetterNotPublishedError
from taskyard.outcomes import Snooze
from tests.support.letters import letter, letters, unreachable_broker

pytestmark = pytest.mark.usefixtures("letter_app")
FAST = 1000
# So long that there are two letters in a slice.
SHORT = 2 / FAST


@pytest.fixture
def slices(take_messages):
    """Return the slices that wait to be worked on."""
    return lambda: [tuple(message.payload[0]) for message in take_messages("low")]


@pytest.fixture
def work(slices):
    """Work on the slices until there are none; return how many there were."""

    def run(seconds=3.0):
        done = 0
        while waiting := slices():
            for bulk_id, number in waiting:
                work_slice(bulk_id, number, seconds=seconds)
                done += 1
        return done

    return run


def start(sample=0, rate=FAST, **chosen):
    return start_bulk_replay(DeadLetterFilter(**chosen), actor="ann", sample=sample, rate_per_second=rate)


def state_of(bulk):
    bulk.refresh_from_db()
    return (bulk.state, bulk.replayed, bulk.failed)


def replayed_ids():
    return set(DeadLetter.objects.filter(status="replayed").values_list("task_id", flat=True))


def test_a_sample_is_replayed_first_the_oldest_and_then_it_waits(work):
    letters(10)

    bulk = start(sample=3)
    work()

    assert state_of(bulk) == ("waiting", 3, 0)
    assert bulk.total == 10
    assert replayed_ids() == {"id-0", "id-1", "id-2"}


def test_the_rest_follows_when_a_person_says_so(work):
    letters(10)
    bulk = start(sample=3)
    work()

    go_on(bulk.pk, "bob")
    work()

    assert state_of(bulk) == ("done", 10, 0)
    assert bulk.finished_at is not None
    assert len(replayed_ids()) == 10
    assert set(DeadLetterAction.objects.values_list("actor", flat=True)) == {"ann"}


@pytest.mark.parametrize("sample", [0, 10, 50])
def test_without_a_rest_nobody_is_asked(work, sample):
    letters(10)

    bulk = start(sample=sample)
    work()

    assert state_of(bulk) == ("done", 10, 0)


def test_only_what_the_filter_leaves_and_what_was_there_at_the_start(work):
    letters(2)
    letter(task_id="other", queue="low")
    bulk = start(queue="high")
    letter(task_id="later")

    work()

    assert state_of(bulk) == ("done", 2, 0)
    assert replayed_ids() == {"id-0", "id-1"}


def test_one_that_cannot_be_replayed_is_counted_and_stays_open(work):
    letters(2)
    bad = letter(task_id="bad", task_name="no.such_task")

    bulk = start()
    work()

    assert state_of(bulk) == ("done", 2, 1)
    assert "the task 'no.such_task' is not known here" in bulk.last_error
    bad.refresh_from_db()
    assert bad.status == "open"


def test_one_that_somebody_else_dealt_with_is_neither(work):
    rows = letters(4)
    bulk = start(sample=1)
    work()
    discard([rows[2].pk], actor="bob", reason="a test")

    go_on(bulk.pk, "ann")
    work()

    assert state_of(bulk) == ("done", 3, 0)


def test_many_are_done_in_slices(work):
    letters(9)

    bulk = start()

    assert work(seconds=SHORT) == 5
    assert state_of(bulk) == ("done", 9, 0)


def test_a_slow_rate_is_kept_by_waiting_between_the_slices(slices, take_messages):
    letters(3)
    bulk = start(rate=0.1)
    (first,) = slices()

    work_slice(*first)

    (message,) = take_messages("low")
    assert message.headers["eta"] is not None
    assert state_of(bulk) == ("running", 1, 0)


def test_it_can_be_stopped_and_taken_up_again(work, slices):
    letters(6)
    bulk = start()
    (first,) = slices()
    work_slice(*first, seconds=SHORT)

    stop(bulk.pk, "bob")
    work()
    assert state_of(bulk) == ("stopped", 2, 0)

    go_on(bulk.pk, "bob")
    work()
    assert state_of(bulk) == ("done", 6, 0)


class Killed(BaseException):
    """Ends a worker's process."""


class TestMessagesAndWorkers:
    """A slice's message may come twice, or never; its worker may die."""

    def test_a_slice_that_is_over_is_not_worked_on_again(self, slices):
        letters(6)
        bulk = start()
        (first,) = slices()
        work_slice(*first, seconds=SHORT)
        (second,) = slices()

        work_slice(*first, seconds=SHORT)

        assert slices() == []
        assert state_of(bulk) == ("running", 2, 0)
        work_slice(*second, seconds=SHORT)
        work_slice(*second, seconds=SHORT)
        assert len(slices()) == 1
        assert state_of(bulk) == ("running", 4, 0)

    def test_a_slice_whose_worker_died_is_taken_up_after_a_while(self, slices):
        letters(6)
        bulk = start()
        ((bulk_id, number),) = slices()
        BulkReplay.objects.update(slice_number=number, is_working=True, worked_at=timezone.now())

        with pytest.raises(Snooze, match="this slice is being worked on, or its worker has just died"):
            work_slice(bulk_id, number)
        BulkReplay.objects.update(worked_at=timezone.now() - timedelta(seconds=16))
        work_slice(bulk_id, number, seconds=SHORT)

        assert state_of(bulk) == ("running", 2, 0)
        assert slices() == [(bulk_id, number + 1)]

    def test_a_worker_that_was_taken_for_dead_stops_when_it_wakes_up(self, slices):
        letters(6)
        start()
        ((bulk_id, number),) = slices()

        def be_slow(**_):
            # while the first letter is published, the next slice begins
            BulkReplay.objects.update(slice_number=number + 1)

        before_task_publish.connect(be_slow)
        try:
            work_slice(bulk_id, number)
        finally:
            before_task_publish.disconnect(be_slow)

        assert slices() == []
        assert replayed_ids() == {"id-0"}

    @pytest.mark.parametrize("signal", [before_task_publish, after_task_publish])
    def test_the_letter_at_which_a_worker_died_is_replayed_and_counted(self, slices, work, signal):
        letters(4)
        bulk = start()
        (first,) = slices()

        def die(**_):
            raise Killed

        signal.connect(die)
        try:
            with pytest.raises(Killed):
                work_slice(*first)
        finally:
            signal.disconnect(die)
        letter_at_hand = DeadLetter.objects.get(status="replaying")
        BulkReplay.objects.update(worked_at=timezone.now() - timedelta(seconds=16))

        work_slice(*first)

        assert state_of(bulk) == ("done", 4, 0)
        task_id = letter_at_hand.replay_task_id
        letter_at_hand.refresh_from_db()
        assert (letter_at_hand.status, letter_at_hand.replay_task_id) == ("replayed", task_id)

    def test_a_lost_message_is_published_again_by_the_schedule(self, slices, work):
        letters(3)
        bulk = start()
        slices()  # lost
        assert recover_bulk_replays() == 0
        BulkReplay.objects.update(worked_at=timezone.now() - timedelta(minutes=6))

        assert recover_bulk_replays() == 1
        work()

        assert state_of(bulk) == ("done", 3, 0)

    def test_two_messages_of_one_slice_do_not_become_two_lines(self, slices, work):
        """As after the schedule took a message for lost that was only late."""
        letters(6)
        bulk = start()
        (first,) = slices()
        BulkReplay.objects.update(worked_at=timezone.now() - timedelta(minutes=6))
        recover_bulk_replays()
        (again,) = slices()
        assert again == first

        work_slice(*first, seconds=SHORT)
        work_slice(*again, seconds=SHORT)

        assert len(slices()) == 1
        assert state_of(bulk) == ("running", 2, 0)

    def test_what_waits_for_a_person_is_left_alone_by_the_schedule(self, work):
        letters(3)
        start(sample=1)
        work()
        BulkReplay.objects.update(worked_at=timezone.now() - timedelta(days=1))

        assert recover_bulk_replays() == 0


def test_with_the_broker_away_nothing_is_counted_as_failed_but_tried_again(slices, work, settings):
    letters(3)
    bulk = start()
    (first,) = slices()

    with unreachable_broker(settings), pytest.raises(Snooze, match="the broker does not take the messages"):
        work_slice(*first)

    assert state_of(bulk) == ("running", 0, 0)
    assert "was not replayed, it is open" in bulk.last_error
    work_slice(*first)
    assert state_of(bulk) == ("done", 3, 0)


def test_with_the_broker_away_none_begins_or_goes_on(settings, work):
    letters(3)
    waiting = start(sample=1)
    work()

    with unreachable_broker(settings):
        with pytest.raises(DeadLetterNotPublishedError, match="Nothing is replayed"):
            start()
        with pytest.raises(DeadLetterNotPublishedError, match="Nothing is replayed"):
            go_on(waiting.pk, "ann")

    assert list(BulkReplay.objects.all()) == [waiting]
    assert state_of(waiting) == ("waiting", 1, 0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"queue": "nowhere"}, "No open dead letter matches"),
        ({"status": "replayed"}, "Only open dead letters can be replayed"),
        ({"sample": -1}, "sample=-1. Give 0 to 1,000,000"),
        ({"sample": 10**20}, "Give 0 to 1,000,000"),
        ({"rate": 0}, r"rate_per_second=0. Give 0.01 to 1000"),
        ({"rate": 5000}, r"rate_per_second=5000. Give 0.01 to 1000"),
    ],
)
def test_what_cannot_be_is_refused(given, message):
    letters(1)

    with pytest.raises(DeadLetterError, match=message):
        start(**given)

    assert BulkReplay.objects.count() == 0


@pytest.mark.parametrize(
    ("state", "act", "message"),
    [
        ("running", go_on, "cannot be gone on with: replaying the rest"),
        ("done", go_on, "cannot be gone on with: done"),
        ("done", stop, "cannot be stopped: done"),
    ],
)
def test_an_action_in_the_wrong_state_is_refused(state, act, message):
    bulk = BulkReplay.objects.create(state=state, up_to_id=1, started_by="ann")

    with pytest.raises(DeadLetterError, match=message):
        act(bulk.pk, "bob")


def test_a_bulk_replay_that_is_not_there():
    with pytest.raises(DeadLetterError, match="Bulk replay 5 does not exist"):
        go_on(5, "ann")
