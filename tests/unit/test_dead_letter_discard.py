"""Discard, open again and purge: with a trace, in chunks, and nothing else is touched."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from taskyard.deadletters.discard import discard, reopen
from taskyard.deadletters.filters import DeadLetterFilter
from taskyard.deadletters.models import BulkReplay, DeadLetter, DeadLetterAction
from taskyard.deadletters.retention import purge_bulk_replays, purge_resolved
from taskyard.errors import DeadLetterError
from tests.support.letters import counted, letter, letters

pytestmark = pytest.mark.django_db
MONTH = timedelta(days=30)


def statuses():
    return dict(DeadLetter.objects.values_list("task_id", "status"))


class TestDiscard:
    def test_it_says_who_when_and_why(self):
        (row,) = letters(1)

        assert discard([row.pk], actor="ann", reason=" the customer is gone ") == 1

        row.refresh_from_db()
        assert (row.status, row.resolved_by) == ("discarded", "ann")
        assert row.discard_reason == "the customer is gone"
        assert row.resolved_at is not None
        (action,) = row.actions.all()
        assert (action.kind, action.actor) == ("discard", "ann")
        assert action.detail == {"reason": "the customer is gone"}

    def test_by_filter(self):
        letters(2)
        letter(task_id="other", queue="low")

        assert discard(DeadLetterFilter(queue="low"), actor="ann", reason="a test") == 1

        assert statuses() == {"id-0": "open", "id-1": "open", "other": "discarded"}

    def test_what_is_not_open_is_left_as_it_is(self):
        rows = letters(3)
        DeadLetter.objects.filter(pk=rows[0].pk).update(status="replayed", resolved_by="bob")

        assert discard([row.pk for row in rows], actor="ann", reason="a test") == 2

        rows[0].refresh_from_db()
        assert (rows[0].status, rows[0].resolved_by) == ("replayed", "bob")
        assert DeadLetterAction.objects.count() == 2

    def test_many_go_in_chunks(self):
        letters(10)

        with CaptureQueriesContext(
            connection,
        ) as captured:
            assert discard(DeadLetterFilter(), actor="ann", reason="a test", chunk_size=3) == 10

        updates = [q for q in captured if q["sql"].startswith('UPDATE "deadletters_deadletter"')]
        assert len(updates) == 4
        assert counted() == {"discarded": 10}

    @pytest.mark.parametrize("reason", ["", "  ", "x" * 256])
    def test_it_needs_a_reason(self, reason):
        letters(1)

        with pytest.raises(DeadLetterError, match="Say why, in 1 to 255"):
            discard(DeadLetterFilter(), actor="ann", reason=reason)

        assert statuses() == {"id-0": "open"}

    def test_a_filter_for_others_is_refused(self):
        with pytest.raises(DeadLetterError, match=r"status='replayed'. Here it can be 'open' only"):
            discard(DeadLetterFilter(status="replayed"), actor="ann", reason="a test")


class TestReopen:
    def test_a_discarded_one_is_open_again(self):
        (row,) = letters(1)
        discard([row.pk], actor="ann", reason="a test")

        assert reopen([row.pk], actor="bob") == 1

        row.refresh_from_db()
        assert (row.status, row.resolved_by, row.resolved_at, row.discard_reason) == ("open", "", None, "")
        assert [action.kind for action in row.actions.all()] == ["discard", "reopen"]

    def test_a_replayed_one_stays_replayed(self):
        (row,) = letters(1)
        DeadLetter.objects.update(status="replayed")

        assert reopen([row.pk], actor="ann") == 0
        assert statuses() == {"id-0": "replayed"}


def resolved(days, status="discarded", **changes):
    """Make a letter that was dealt with so many days ago."""
    row = letter(task_id=f"{status}-{days}", **changes)
    moment = timezone.now() - timedelta(days=days)
    DeadLetter.objects.filter(pk=row.pk).update(status=status, resolved_at=moment)
    DeadLetterAction.objects.create(letter=row, kind="discard", actor="ann")
    return row


class TestPurge:
    def test_what_was_resolved_longer_ago_is_deleted_with_its_audit(self):
        resolved(31)
        resolved(31, status="replayed")
        young = resolved(29)

        assert purge_resolved(older_than=MONTH) == 2

        assert list(DeadLetter.objects.all()) == [young]
        assert [action.letter for action in DeadLetterAction.objects.all()] == [young]

    def test_open_ones_are_never_deleted(self):
        row = letter()
        DeadLetter.objects.update(created_at=timezone.now() - timedelta(days=1000))
        resolved(1000, status="replaying")

        assert purge_resolved(older_than=MONTH) == 0
        assert DeadLetter.objects.filter(pk=row.pk).exists()

    def test_the_dead_letter_of_its_replay_stays(self):
        first = resolved(31, status="replayed")
        again = letter(task_id="again")
        DeadLetter.objects.filter(pk=again.pk).update(replay_of=first)

        assert purge_resolved(older_than=MONTH) == 1

        again.refresh_from_db()
        assert again.replay_of is None

    def test_many_go_in_chunks_without_reading_what_is_in_them(self):
        for _ in range(7):
            row = letter(task_id=f"id-{DeadLetter.objects.count()}", traceback="x" * 1000)
            DeadLetter.objects.filter(pk=row.pk).update(
                status="replayed", resolved_at=timezone.now() - timedelta(days=31)
            )

        with CaptureQueriesContext(connection) as captured:
            assert purge_resolved(older_than=MONTH, chunk_size=3) == 7

        reads = [q["sql"] for q in captured if q["sql"].startswith("SELECT")]
        assert len([sql for sql in reads if '"deadletters_deadletter"' in sql]) == 4
        assert not [sql for sql in reads if "traceback" in sql or "attempts" in sql]

    def test_bulk_replays_that_ended_long_ago_go_too(self):
        old, new = (BulkReplay.objects.create(state="done", up_to_id=1, started_by="ann") for _ in range(2))
        running = BulkReplay.objects.create(state="running", up_to_id=1, started_by="ann")
        BulkReplay.objects.filter(pk=old.pk).update(finished_at=timezone.now() - timedelta(days=31))
        BulkReplay.objects.filter(pk=new.pk).update(finished_at=timezone.now())

        assert purge_bulk_replays(older_than=MONTH) == 1

        assert set(BulkReplay.objects.all()) == {new, running}
