"""What a dead letter keeps, what of it is encrypted, and who is told of it."""

from __future__ import annotations

import dataclasses
import math

import pytest
from django.db import DatabaseError

from taskyard.deadletters import service
from taskyard.deadletters.contents import message_of, shown_content, true_content
from taskyard.deadletters.models import DeadLetter
from taskyard.errors import DeadLetterError
from taskyard.masking import MASK
from taskyard.signals import dead_letter_recorded
from tests.support.letters import CARD, FAILURE, SECRET, counted, letter, letters

pytestmark = pytest.mark.django_db


@pytest.fixture
def received():
    """What receivers of the signal got."""
    got = []

    def receive(**given):
        got.append(given)

    dead_letter_recorded.connect(receive)
    yield got
    dead_letter_recorded.disconnect(receive)


class TestSealing:
    def test_a_call_without_marks_is_kept_in_clear_only(self):
        row = letter()

        assert row.sealed == ""
        assert true_content(row).args == [7]

    def test_the_true_arguments_are_encrypted_and_nowhere_else(self):
        row = letter(SECRET)

        stored = {name: str(value) for name, value in vars(row).items()}
        assert row.kwargs == {"card": MASK}
        assert not [name for name, value in stored.items() if CARD in value]
        assert true_content(row).kwargs == {"card": CARD}

    def test_the_canvas_is_encrypted_where_the_one_that_is_shown_differs(self):
        true = {"callbacks": [{"task": "mail.send", "args": [CARD], "kwargs": {}}]}
        shown = {"callbacks": [{"task": "mail.send", "args": [MASK], "kwargs": {}}]}

        row = letter(true_kwargs={}, canvas=shown, true_canvas=true)

        assert row.canvas == shown
        assert CARD not in row.sealed
        assert true_content(row).canvas == true

    @pytest.mark.parametrize("value", ["a\x00b", "\ud800", math.inf])
    def test_what_the_database_would_change_is_kept_as_it_was(self, value):
        row = letter(args=[value], true_args=[value])

        assert row.args != [value]
        assert true_content(row).args == [value]

    def test_another_key_does_not_open_it(self, settings):
        row = letter(SECRET)
        settings.SECRET_KEY = "another one"

        with pytest.raises(DeadLetterError, match=f"Dead letter {row.pk} cannot be opened") as caught:
            true_content(row)

        assert "ENCRYPTION_KEYS" in str(caught.value)

    def test_an_older_key_opens_it(self, settings):
        row = letter(SECRET)
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another one", [settings.SECRET_KEY]

        assert true_content(row).kwargs == {"card": CARD}


class TestMessages:
    """Nobody knows what is marked in a message that no worker understood."""

    RAW = f'content-type: application/json\n\n[[7], {{"card": "{CARD}"}}, {{"callbacks": null}}]'

    def test_it_is_encrypted(self):
        row = letter(reason="unknown_task", args=[], true_args=[], raw=self.RAW)

        assert CARD not in row.sealed_raw
        assert message_of(row) == self.RAW

    def test_a_large_one_is_whole(self):
        raw = "x" * (service.TEXT_LIMIT + 1)

        assert message_of(letter(reason="unknown_task", raw=raw)) == raw

    def test_a_huge_one_is_cut(self):
        row = letter(reason="unknown_task", raw="x" * (service.RAW_LIMIT + 1))

        assert len(message_of(row)) == service.RAW_LIMIT

    def test_nothing_of_it_is_shown_while_nobody_knows_the_task(self):
        row = letter(task_name="no.such_task", reason="unknown_task", args=[], true_args=[], raw=self.RAW)

        assert shown_content(row).args == []
        assert shown_content(row).kwargs == {}

    def test_its_arguments_are_shown_masked_once_the_task_is_known(self, letter_app):
        row = letter(reason="unknown_task", args=[], true_args=[], raw=self.RAW)

        assert shown_content(row).args == [7]
        assert shown_content(row).kwargs == {"card": MASK}
        assert true_content(row).kwargs == {"card": CARD}

    def test_one_of_another_content_type_has_no_content(self):
        row = letter(reason="invalid", raw="content-type: application/x-python-serialize\n\nabc")

        with pytest.raises(DeadLetterError, match="is not JSON"):
            true_content(row)

    @pytest.mark.parametrize(
        "body", ["not json", "[[7], {}]", "7", '{"a": 1}', "[7, {}, {}]", "[[], [], {}]"]
    )
    def test_one_that_is_no_call_has_no_content(self, body):
        row = letter(reason="invalid", raw=f"content-type: application/json\n\n{body}")

        with pytest.raises(DeadLetterError, match="its message is not a call"):
            true_content(row)


class TestFingerprint:
    def test_the_same_fault_has_the_same_one_whatever_the_error_says(self):
        first = letter()
        second = letter(task_id="id-2", error="ConnectionError: another text", queue="low", args=[8])

        assert first.fingerprint == second.fingerprint
        assert len(first.fingerprint) == 16

    @pytest.mark.parametrize(
        "change",
        [
            {"task_name": "other.task"},
            {"reason": "poison"},
            {"error_type": "builtins.OSError"},
            {"error_place": "other.py:1 in f"},
        ],
        ids=str,
    )
    def test_another_fault_has_another_one(self, change):
        assert letter().fingerprint != letter(task_id="id-2", **change).fingerprint


class TestReplayedRun:
    """The dead letter of a run that a replay has started points to the one that was replayed."""

    def replayed(self):
        first = letter()
        DeadLetter.objects.filter(pk=first.pk).update(replay_task_id="id-2")
        return first

    def test_it_is_linked(self):
        first = self.replayed()

        again = letter(task_id="id-2", headers={service.REPLAY_OF: first.pk})

        assert again.replay_of == first

    @pytest.mark.parametrize("number", [999_999, "1", None, [1], 1.0, True])
    def test_a_header_that_is_not_ours_links_nothing(self, number):
        self.replayed()

        assert letter(task_id="id-2", headers={service.REPLAY_OF: number}).replay_of is None

    def test_another_task_cannot_claim_to_be_the_replay(self):
        first = self.replayed()

        assert letter(task_id="id-3", headers={service.REPLAY_OF: first.pk}).replay_of is None


class TestSignal:
    def test_it_brings_the_row_and_the_failure(self, received):
        row = letter()

        (given,) = received
        assert given["sender"] is DeadLetter
        assert given["letter"] == row
        assert given["failure"].task_id == "id-1"

    def test_a_failure_that_is_reported_twice_is_told_once(self, received):
        for _ in range(3):
            letter()

        assert len(received) == 1

    def test_a_receiver_that_fails_costs_nothing_but_a_log_line(self, received, caplog):
        def broken(**_):
            raise RuntimeError("no alert today")

        dead_letter_recorded.connect(broken)
        try:
            row = letter()
        finally:
            dead_letter_recorded.disconnect(broken)

        assert row.pk
        assert len(received) == 1
        assert "no alert today" in caplog.text

    def test_nothing_is_told_of_what_is_not_stored(self, received, monkeypatch):
        with pytest.raises((DatabaseError, TypeError, ValueError, AttributeError)):
            service.record(dataclasses.replace(FAILURE, reason=None))

        assert received == []


class TestCounts:
    def test_each_letter_is_counted_once(self):
        letters(3)
        letters(3)

        assert counted() == {"open": 3}

    def test_by_queue(self):
        letter()
        letter(task_id="id-2", queue="low")

        assert counted(queue="high") == counted(queue="low") == {"open": 1}
