"""The first line of a letter's page: what happened, in one sentence."""

from __future__ import annotations

import pytest

from taskyard.deadletters.admin.sentences import what_happened
from taskyard.deadletters.models import DeadLetter

HOUR = 3600.0


def letter(reason: str, *, runs: int = 1, every_seconds: float = HOUR, **columns: object) -> DeadLetter:
    attempts = [{"number": run + 1, "at": 1e9 + run * every_seconds} for run in range(runs)]
    values = {
        "task_name": "orders.charge",
        "queue": "critical",
        "attempts": attempts,
        "error": "Declined: no",
    }
    return DeadLetter(reason=reason, **(values | columns))


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        (
            letter("retries_exhausted", runs=4),
            "orders.charge failed 4 times in 3 h and was given up: Declined: no",
        ),
        (
            letter("age_exceeded", runs=25),
            "orders.charge failed 25 times in 1 d, reached its age limit and was given up: Declined: no",
        ),
        (letter("not_retryable"), "orders.charge failed with an error that is not retried: Declined: no"),
        (
            letter("not_retryable", runs=3, every_seconds=0.2),
            "orders.charge failed 3 times in less than 1 s, the last time with an error that is not retried: "
            "Declined: no",
        ),
        (
            letter("time_limit", error="TimeLimitExceeded: 30"),
            "orders.charge ran into its hard time limit and was killed: TimeLimitExceeded: 30",
        ),
        (
            letter("poison", error=""),
            "The process that ran orders.charge died too often, so it is not run again.",
        ),
        (letter("snoozed_too_long", error=""), "orders.charge was put off for too long and was given up."),
        (
            letter("unknown_task", task_name="orders.gone", error=""),
            "No worker knows the task orders.gone on the queue critical.",
        ),
        (
            letter("invalid", task_name="", error="no id"),
            "A message that is not a task came on the queue critical: no id",
        ),
        (
            letter("undecodable", task_name="", queue="", error="no JSON"),
            "A message that cannot be decoded came: no JSON",
        ),
        (letter("rejected", error=""), "orders.charge rejected its message."),
        (
            letter("wrong_signature", error="TypeError: no x"),
            "orders.charge was called with arguments that it does not take: TypeError: no x",
        ),
        (letter("of_a_later_version", error=""), "orders.charge ended (of_a_later_version)."),
    ],
    ids=lambda value: value.reason if isinstance(value, DeadLetter) else None,
)
def test_the_sentence_says_what_happened(written, sentence):
    assert what_happened(written) == sentence


def test_every_reason_has_a_sentence_of_its_own():
    sentences = {what_happened(letter(reason, error="")) for reason in DeadLetter.Reason.values}

    assert len(sentences) == len(DeadLetter.Reason.values)
    assert not any(f"({reason})" in sentence for reason in DeadLetter.Reason.values for sentence in sentences)


def test_a_long_error_is_cut_at_its_first_line():
    told = what_happened(letter("not_retryable", error="x" * 1000 + "\nmore"))

    assert told.endswith("x\N{HORIZONTAL ELLIPSIS}")
    assert len(told) < 400


@pytest.mark.parametrize("attempts", [[], [{}], [{"at": "yesterday"}], ["broken"], [{"at": float("nan")}]])
def test_runs_that_are_not_known_are_counted_by_the_retries(attempts):
    written = letter("retries_exhausted", attempts=attempts, retries=3)

    assert what_happened(written).startswith("orders.charge failed ")
