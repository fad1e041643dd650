"""`manage.py deadletters`: the same filters and the same audit as the admin, for people and for machines."""

from __future__ import annotations

import getpass
import socket
from argparse import ArgumentTypeError
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError

from taskyard.deadletters.console.arguments import moment
from taskyard.deadletters.models import BulkReplay, DeadLetter, DeadLetterAction
from tests.support.letters import CARD, SECRET, TASK, letter, letters
from tests.support.letters_command import as_json, deadletters

pytestmark = pytest.mark.usefixtures("letter_app")


@pytest.fixture
def answers(monkeypatch):
    """Answer the next question, and keep it."""
    asked = []

    def give(answer):
        def read(question):
            asked.append(question)
            if answer is None:
                raise EOFError
            return answer

        monkeypatch.setattr("builtins.input", read)
        return asked

    return give


def statuses():
    return sorted(DeadLetter.objects.values_list("status", flat=True))


class TestList:
    def test_each_has_a_line_to_find_it_and_one_that_says_why(self):
        row = letter()

        text = deadletters("list")

        assert f"{row.pk}  {row.created_at:%Y-%m-%d %H:%M:%S}  high      retries_exhausted  {TASK}" in text
        assert "ConnectionError: refused" in text
        assert "1 of 1 open dead letter." in text

    def test_it_says_that_there_is_more(self):
        letters(3)

        assert "2 of 3 open dead letters; --limit for more" in deadletters("list", "--limit", 2)

    def test_nothing_is_a_line_too(self):
        assert deadletters("list") == "0 of 0 open dead letters.\n"

    def test_the_newest_comes_first(self):
        rows = letters(3)

        assert [record["id"] for record in as_json("list")] == [row.pk for row in reversed(rows)]

    @pytest.mark.parametrize(
        ("words", "found"),
        [
            (["--queue", "low"], ["other"]),
            (["--reason", "poison"], ["other"]),
            (["--task", TASK], ["other", "id-0"]),
            (["--search", "id-0"], ["id-0"]),
            (["--since", "1h"], ["other", "id-0"]),
            (["--until", "1h"], []),
            (["--status", "any"], ["gone", "other", "id-0"]),
            (["--status", "discarded"], ["gone"]),
        ],
        ids=str,
    )
    def test_the_filters(self, words, found):
        letters(1)
        letter(task_id="other", queue="low", reason="poison")
        DeadLetter.objects.filter(pk=letter(task_id="gone").pk).update(status="discarded")

        assert [record["task_id"] for record in as_json("list", *words)] == found

    def test_a_filter_that_is_none_is_an_error_with_a_suggestion(self):
        with pytest.raises(
            CommandError, match=r"reason='poisson', which does not exist. Did you mean 'poison'\?"
        ):
            deadletters("list", "--reason", "poisson")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30m", datetime(2026, 3, 1, 11, 30, tzinfo=UTC)),
        ("2h", datetime(2026, 3, 1, 10, tzinfo=UTC)),
        ("3d", datetime(2026, 2, 26, 12, tzinfo=UTC)),
        ("1w", datetime(2026, 2, 22, 12, tzinfo=UTC)),
        ("2026-02-03", datetime(2026, 2, 3, tzinfo=UTC)),
        ("2026-02-03T04:05", datetime(2026, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-02-03T04:05+02:00", datetime(2026, 2, 3, 2, 5, tzinfo=UTC)),
    ],
)
def test_times_as_people_write_them(text, expected):
    assert moment(text, now=datetime(2026, 3, 1, 12, tzinfo=UTC)) == expected


@pytest.mark.parametrize("text", ["", "2x", "h", "-2h", "yesterday"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ArgumentTypeError, match="is no time: write 30m"):
        moment(text)


def test_groups_show_the_fault_once_with_its_fingerprint():
    letters(3)
    row = letter(task_id="other", error_place="mail.py:1 in send")

    text = deadletters("groups")
    (largest, other) = as_json("groups")

    assert "2 of 2 faults, 4 of 4 open dead letters." in text
    assert (largest["count"], other["count"]) == (3, 1)
    assert f"{row.fingerprint}  since" in text
    assert "mail.py:1 in send" in text


class TestShow:
    def test_everything_that_may_be_shown(self):
        attempts = [{"number": 1, "at": 1.7e9, "worker": "high@host", "error": "OSError: x", "traceback": ""}]
        row = letter(SECRET, attempts=attempts)

        text = deadletters("show", row.pk)

        for shown in (
            TASK,
            "corr-1",
            "high, 9",
            "OSError: x",
            "Traceback ...",
            row.fingerprint,
            'Arguments\norder:           7\ncard:            "******"\n',
            "first_published_at: 1970-01-01 00:00:01 UTC",
            "tenant:          acme",
            "Runs (UTC)\n  1  2023-11-14 22:13:20  high@host  OSError: x",
            f"written:         {row.created_at:%Y-%m-%d %H:%M:%S} UTC",
        ):
            assert shown in text
        assert CARD not in text

    def test_the_audit_names_the_arguments_of_an_edited_replay(self, take_messages):
        row = letter()
        deadletters("replay", row.pk, "--args", "[8]", "--who", "ann")

        assert "order: 7 \N{RIGHTWARDS ARROW} 8" in deadletters("show", row.pk)

    def test_what_is_encrypted_is_shown_when_asked_for_and_that_is_kept(self):
        row = letter(SECRET)

        record = as_json("show", row.pk, "--reveal", "--who", "ann")

        assert record["kwargs"] == {"card": "******"}
        assert record["revealed"]["kwargs"] == {"card": CARD}
        (action,) = DeadLetterAction.objects.all()
        assert (action.kind, action.actor) == ("reveal", "ann")

    def test_one_that_is_not_there(self):
        with pytest.raises(CommandError, match="Dead letter 7 does not exist"):
            deadletters("show", 7)


class TestReplay:
    @pytest.mark.parametrize(("words", "is_logged"), [((), False), (("--verbosity", "2"), True)])
    def test_the_answer_stands_alone_unless_more_is_asked_for(self, take_messages, caplog, words, is_logged):
        row = letter()

        text = deadletters(*words, "replay", row.pk)

        assert text.startswith(f"Dead letter {row.pk} is replayed as task ")
        assert ("dead letter replayed" in caplog.text) is is_logged

    def test_by_id_at_once(self, take_messages):
        row = letter()

        (result,) = as_json("replay", row.pk)

        assert [message.headers["id"] for message in take_messages("high")] == [result["task_id"]]
        action = DeadLetterAction.objects.get()
        assert action.actor == f"{getpass.getuser()}@{socket.gethostname()}"

    def test_one_that_cannot_be_does_not_keep_the_others(self, take_messages):
        good, bad = letter(), letter(task_id="id-2", task_name="no.such_task")

        with pytest.raises(CommandError, match="1 of 2 cannot be replayed"):
            deadletters("replay", bad.pk, good.pk)

        assert len(take_messages("high")) == 1

    def test_with_other_arguments(self, take_messages):
        row = letter(SECRET)

        deadletters("replay", row.pk, "--args", "[8]", "--kwargs", '{"card": "******"}')

        (message,) = take_messages("high")
        assert message.payload[:2] == [[8], {"card": CARD}]

    def test_other_arguments_are_for_one(self):
        rows = letters(2)

        with pytest.raises(CommandError, match="are for one dead letter"):
            deadletters("replay", rows[0].pk, rows[1].pk, "--args", "[8]")

    def test_by_filter_a_bulk_replay_begins(self, answers, take_messages):
        letters(2)
        letter(task_id="other", queue="low")
        asked = answers("2")

        text = deadletters("replay", "--queue", "high", "--sample", 1, "--rate", 3, "--who", "ann")

        assert asked == ["Replay 2 open dead letters, 1 of them first? Type the number 2 to go on: "]
        bulk = BulkReplay.objects.get()
        assert (bulk.total, bulk.sample, bulk.rate_per_second, bulk.started_by) == (2, 1, 3, "ann")
        assert f"deadletters go-on {bulk.pk}" in text
        (message,) = take_messages("low")
        assert message.headers["task"] == "deadletters.replay_in_bulk"

    @pytest.mark.parametrize("dry", [["1"], ["--queue", "high"]])
    def test_a_dry_run_changes_nothing(self, take_messages, dry):
        row = letter()
        words = [str(row.pk)] if dry == ["1"] else dry

        text = deadletters("replay", *words, "--dry-run")

        assert "would be" in text
        assert (statuses(), BulkReplay.objects.count(), take_messages("low")) == (["open"], 0, [])


class TestDiscard:
    def test_by_filter_after_a_question(self, answers):
        letters(2)
        asked = answers("2")

        text = deadletters("discard", "--queue", "high", "--because", "the customer is gone")

        assert asked == ["Discard 2 open dead letters? Type the number 2 to go on: "]
        assert text == "2 dead letters discarded.\n"
        assert set(DeadLetter.objects.values_list("discard_reason", flat=True)) == {"the customer is gone"}

    @pytest.mark.parametrize("answer", ["", "y", "3", None])
    def test_any_other_answer_changes_nothing(self, answers, answer):
        letters(2)
        answers(answer)

        with pytest.raises(CommandError, match="Nothing was done"):
            deadletters("discard", "--all", "--because", "a test")

        assert statuses() == ["open", "open"]

    def test_a_machine_is_not_asked_but_must_say_yes(self):
        letters(1)

        with pytest.raises(CommandError, match=r"Discard 1 open dead letter\? Say so with --yes"):
            as_json("discard", "--all", "--because", "a test")

        assert as_json("discard", "--all", "--because", "a test", "--yes") == {"discarded": 1}

    @pytest.mark.parametrize("action", [["discard", "--because", "x"], ["replay"], ["reopen"]])
    def test_without_a_choice_nothing_is_chosen(self, action):
        letters(1)

        with pytest.raises(CommandError, match=r"was not told which. Give ids or filters, or --all"):
            deadletters(*action, "--yes")

        assert statuses() == ["open"]

    def test_it_can_be_taken_back(self):
        (row,) = letters(1)
        deadletters("discard", row.pk, "--why", "a test", "--yes")

        assert deadletters("reopen", row.pk, "--yes") == "1 dead letter opened again.\n"
        assert statuses() == ["open"]

    def test_nothing_to_do_is_said(self):
        assert (
            deadletters("discard", 99, "--because", "x", "--yes")
            == "No dead letter matches: nothing to do.\n"
        )


class TestPurge:
    def resolved(self, days):
        row = letter(task_id=f"{days}")
        then = datetime.now(UTC) - timedelta(days=days)
        DeadLetter.objects.filter(pk=row.pk).update(status="discarded", resolved_at=then)

    def test_it_deletes_what_is_older_than_the_setting(self):
        self.resolved(31)
        self.resolved(29)

        assert deadletters("purge", "--dry-run").startswith("Delete 1 dead letter, resolved over 30 days ago")
        assert as_json("purge", "--yes") == {"purged": 1}
        assert DeadLetter.objects.count() == 1

    def test_or_than_so_many_days(self):
        self.resolved(2)

        assert as_json("purge", "--older-than", "1.5", "--yes") == {"purged": 1}


class TestImpossibleValues:
    """What can never be right is refused at once, in a sentence."""

    @pytest.mark.parametrize(
        ("words", "complaint"),
        [
            (["replay", "1", "--kwargs", '["a"]'], "not a JSON object"),
            (["replay", "1", "--args", '{"a": 1}'], "not a JSON list"),
            (["replay", "1", "--args", "[" * 100_000], "nested too deeply"),
            (["list", "--limit", "99999999999999999999"], "is not 1 to 1,000,000"),
            (["groups", "--limit", "99999999999999999999"], "is not 1 to 1,000,000"),
            (["replay", "--all", "--sample=-4"], "-4 is not 0 to 1,000,000"),
            (["replay", "--all", "--yes", "--sample", "99999999999999999999"], "is not 0 to 1,000,000"),
            (["replay", "--all", "--rate", "nan"], "nan is not 0.01 to 1000"),
        ],
        ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
    )
    def test_it_is_refused_before_anything_is_asked(self, answers, words, complaint):
        asked = answers("1")
        letter()

        with pytest.raises(CommandError, match=complaint):
            deadletters(*words)

        assert asked == []
        assert BulkReplay.objects.count() == 0

    def test_arguments_that_no_message_can_carry_are_an_error_of_their_letter(self):
        row = letter()

        with pytest.raises(CommandError, match="1 of 1 cannot be replayed"):
            deadletters("replay", row.pk, "--args", "[" * 900 + "]" * 900)

        assert statuses() == ["open"]
