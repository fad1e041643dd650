"""`manage.py deadletters`: faults by the start of their fingerprint, and how far bulk replays are."""

from __future__ import annotations

import pytest
from django.core.management import CommandError

from taskyard.deadletters.models import BulkReplay, DeadLetter, FaultCount
from taskyard.deadletters.tasks import replay_in_bulk
from tests.support.letters import letter, letters
from tests.support.letters_command import as_json, deadletters

pytestmark = pytest.mark.usefixtures("letter_app")


class TestFingerprint:
    def test_its_first_digits_are_enough(self):
        row = letter()
        letter(task_id="other", error_place="mail.py:1 in send")

        assert [found["id"] for found in as_json("list", "--fingerprint", row.fingerprint[:8])] == [row.pk]

    def test_the_beginning_of_several_is_refused_and_names_them(self):
        row = letter()
        other = f"{row.fingerprint[:6]}{'0' * 10}"
        FaultCount.objects.filter(pk=FaultCount.objects.get().pk).update(shard=1)
        copy = FaultCount.objects.get()
        copy.pk, copy.fingerprint = None, other
        copy.save()

        with pytest.raises(CommandError, match="is the beginning of several") as raised:
            deadletters("list", "--fingerprint", row.fingerprint[:6])

        assert other in str(raised.value)
        assert row.fingerprint in str(raised.value)

    @pytest.mark.parametrize("text", ["abc12", "no hex digits", "0" * 17])
    def test_what_is_no_beginning_is_refused(self, text):
        with pytest.raises(CommandError, match="Give its 16 hex digits, or at least the first 6"):
            deadletters("list", "--fingerprint", text)

    def test_one_that_no_fault_has_is_an_error_not_an_empty_list(self):
        with pytest.raises(CommandError, match="No fault has a fingerprint that begins with 'abcdef'"):
            deadletters("list", "--fingerprint", "abcdef")


class TestBulkReplays:
    def bulk(self, **values):
        return BulkReplay.objects.create(up_to_id=1, total=10, started_by="ann", **values)

    def test_they_are_listed_with_their_progress(self):
        self.bulk(state="waiting", replayed=4, failed=1, last_error="Dead letter 3 cannot be replayed: why")

        text = deadletters("replays")

        assert "waiting" in text
        assert "4 of        10         1          0  ann" in text
        assert "Dead letter 3 cannot be replayed: why" in text

    def test_what_came_back_is_counted_for_people_and_machines(self, take_messages):
        rows = letters(3)
        deadletters("replay", "--all", "--sample", 2, "--yes", "--who", "ann")
        for message in take_messages("low"):
            replay_in_bulk.run(*message.payload[0])
        for row in rows[:2]:
            again = letter(task_id=f"again-{row.pk}", error="ConnectionError: refused again")
            DeadLetter.objects.filter(pk=again.pk).update(replay_of=row)
        bulk = BulkReplay.objects.get()

        text = deadletters("replays", bulk.pk)
        (listed,) = as_json("replays")
        one = as_json("replays", bulk.pk)

        assert "2 of         3         0          2  ann" in deadletters("replays")
        assert (
            f"2 of 2 failed again. The rest would most likely fail, too: `deadletters stop {bulk.pk}`" in text
        )
        assert "ConnectionError: refused again" in text
        assert (listed["came_back"], listed["not_sent"], "failed" in listed) == (2, 0, False)
        assert [sampled["came_back_as"] is not None for sampled in one["sampled"]] == [True, True]

    def test_one_that_is_not_there_is_an_error(self):
        with pytest.raises(CommandError, match="Bulk replay 7 does not exist"):
            deadletters("replays", 7)

    def test_go_on_and_stop(self, take_messages):
        bulk = self.bulk(state="waiting")

        assert "goes on, 10 a second" in deadletters("go-on", bulk.pk)
        assert len(take_messages("low")) == 1
        assert "is stopped" in deadletters("stop", bulk.pk)
        with pytest.raises(CommandError, match=f"Bulk replay {bulk.pk} cannot be stopped: stopped"):
            deadletters("stop", bulk.pk)
