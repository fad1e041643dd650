"""Groups and counts: from the table of counts where it knows, else from the letters; both say the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from taskyard.deadletters import counts
from taskyard.deadletters.discard import discard, reopen
from taskyard.deadletters.filters import DeadLetterFilter
from taskyard.deadletters.groups import count_by, count_groups, count_letters, groups
from taskyard.deadletters.models import DeadLetter, FaultCount
from taskyard.deadletters.retention import purge_resolved
from tests.support.letters import FAILURE, counted, letter, letters

pytestmark = pytest.mark.django_db
# Leaves the same letters as no time at all, but the table of counts does not know that.
ALWAYS = datetime(2000, 1, 1, tzinfo=UTC)


def by_both(**given):
    """Return the groups of a filter, which both ways of counting must agree on."""
    quick, thorough = groups(DeadLetterFilter(**given)), groups(DeadLetterFilter(**given, since=ALWAYS))
    assert quick == thorough
    assert (
        count_groups(DeadLetterFilter(**given))
        == len(quick)
        == count_groups(DeadLetterFilter(**given, since=ALWAYS))
    )
    number = sum(group.count for group in quick)
    assert count_letters(DeadLetterFilter(**given)) == number
    assert count_letters(DeadLetterFilter(**given, since=ALWAYS)) == number
    return quick


def test_one_fault_is_one_group_with_its_count_times_queues_and_newest_error():
    first, *_, last = letters(3, error="ConnectionError: refused")
    letter(task_id="elsewhere", queue="low", error="ConnectionError: the newest")
    newest = DeadLetter.objects.get(task_id="elsewhere")

    (group,) = by_both()

    assert (group.task_name, group.reason) == (FAILURE.task_name, FAILURE.reason)
    assert (group.error_type, group.error_place) == (FAILURE.error_type, FAILURE.error_place)
    assert (group.count, list(group.queues)) == (4, ["high", "low"])
    assert (group.first_seen, group.last_seen) == (first.created_at, newest.created_at)
    assert (group.sample_id, group.sample_error) == (newest.pk, "ConnectionError: the newest")
    assert last.fingerprint == group.fingerprint


def test_the_largest_comes_first_or_the_newest():
    letters(3)
    newest = letter(task_id="other", error_place="mail.py:1 in send")

    assert [group.count for group in by_both()] == [3, 1]
    (first, _) = groups(DeadLetterFilter(), order="last_seen")
    assert first.sample_id == newest.pk


def test_pages_of_groups():
    for place in range(5):
        letter(task_id=f"id-{place}", error_place=f"file.py:{place} in f")

    pages = [groups(DeadLetterFilter(), limit=2, offset=offset) for offset in (0, 2, 4)]

    assert [len(page) for page in pages] == [2, 2, 1]
    assert len({group.fingerprint for page in pages for group in page}) == 5


@pytest.mark.parametrize(
    ("given", "counts"),
    [
        ({}, [3, 1]),
        ({"queue": "low"}, [1]),
        ({"queue": "high"}, [3]),
        ({"reason": "poison"}, [1]),
        ({"task": FAILURE.task_name}, [3, 1]),
        ({"task": "no.such"}, []),
        ({"status": "discarded"}, []),
        ({"status": None}, [3, 1]),
    ],
    ids=str,
)
def test_groups_of_a_filter(given, counts):
    letters(3)
    letter(task_id="other", reason="poison", queue="low")

    assert [group.count for group in by_both(**given)] == counts


def test_a_long_error_is_shown_by_its_start():
    letter(error="x" * 100_000)

    (group,) = by_both()
    assert len(group.sample_error) == 500


def test_the_sample_is_one_that_the_filter_leaves():
    first, second = letters(2)
    discard([second.pk], actor="ann", reason="a test")

    (group,) = groups(DeadLetterFilter())
    assert (group.count, group.sample_id) == (1, first.pk)
    (group,) = groups(DeadLetterFilter(status="discarded"))
    assert (group.count, group.sample_id) == (1, second.pk)


def test_counts_follow_every_change():
    rows = letters(5)
    assert counted() == {"open": 5}

    discard([row.pk for row in rows[:3]], actor="ann", reason="a test")
    assert counted() == {"open": 2, "discarded": 3}

    reopen([rows[0].pk], actor="ann")
    assert counted() == {"open": 3, "discarded": 2}

    DeadLetter.objects.update(resolved_at=timezone.now() - timedelta(days=31))
    purge_resolved(older_than=timedelta(days=30))
    assert counted() == {"open": 3}
    assert [group.count for group in by_both(status=None)] == [3]


def test_counts_by_field_come_with_the_most_first():
    letters(3)
    letter(task_id="other", queue="low", reason="poison")

    assert list(count_by(DeadLetterFilter(), "queue").items()) == [("high", 3), ("low", 1)]
    assert count_by(DeadLetterFilter(queue="low"), "reason") == {"poison": 1}
    assert count_by(DeadLetterFilter(status="replayed"), "queue") == {}


def test_workers_of_one_fault_count_in_rows_of_their_own(monkeypatch):
    for pid in range(8):
        monkeypatch.setattr("os.getpid", lambda pid=pid: pid)
        letter(task_id=f"id-{pid}")

    assert FaultCount.objects.count() == counts.SHARDS
    assert [group.count for group in by_both()] == [8]


class TestRepair:
    """Only what is done past the kit makes counts wrong."""

    def test_right_counts_are_left_alone(self):
        letters(3)

        assert counts.repair() == 0

    @pytest.mark.parametrize(
        "damage",
        [
            lambda: DeadLetter.objects.filter(task_id="id-0").update(status="discarded"),
            lambda: DeadLetter.objects.filter(task_id="id-0").delete(),
            lambda: DeadLetter.objects.all().delete(),
            lambda: FaultCount.objects.all().delete(),
            lambda: FaultCount.objects.update(open=99, replayed=3),
        ],
    )
    def test_wrong_ones_are_counted_again(self, damage):
        letters(3)
        letter(task_id="other", error_place="mail.py:1 in send")
        damage()

        assert counts.repair() > 0

        for status in ("open", None):
            by_counts = groups(DeadLetterFilter(status=status))
            by_letters = groups(DeadLetterFilter(status=status, since=ALWAYS))
            assert [group.count for group in by_counts] == [group.count for group in by_letters]
            assert [group.sample_id for group in by_counts] == [group.sample_id for group in by_letters]
        assert counts.repair() == 0

    def test_a_fault_that_was_not_counted_at_all_gets_its_times_back(self):
        letters(3)
        FaultCount.objects.all().delete()

        counts.repair()

        by_both()

    def test_a_letter_that_comes_afterwards_is_counted(self):
        letters(2)
        FaultCount.objects.all().delete()
        counts.repair()

        letter(task_id="id-2")

        assert counted() == {"open": 3}
