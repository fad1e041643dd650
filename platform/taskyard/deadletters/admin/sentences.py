"""What happened to a task, in one sentence: what a person on call reads first."""

from __future__ import annotations

from collections.abc import Callable

from taskyard.deadletters.models import DeadLetter
from taskyard.wording import counted, from_epoch, shorten, span

_ERROR_CHARACTERS = 240
Reason = DeadLetter.Reason


def what_happened(letter: DeadLetter) -> str:
    """Return the sentence, with the error at its end where there is one."""
    told = _TELL[Reason(letter.reason)](letter) if letter.reason in Reason.values else _unknown(letter)
    error = shorten(letter.error, _ERROR_CHARACTERS)
    return f"{told}: {error}" if error else f"{told}."


def runs_of(letter: DeadLetter) -> int:
    """Return how often the task was run, as far as is known."""
    return len(letter.attempts) or letter.retries + 1


def _task(letter: DeadLetter) -> str:
    return letter.task_name or "A task without a name"


def _failed(letter: DeadLetter) -> str:
    """Return `orders.charge_order failed 24 times in 3 h`."""
    runs = runs_of(letter)
    times = "once" if runs == 1 else counted(runs, "time", "times")
    return f"{_task(letter)} failed {times}{_within(letter)}"


def _within(letter: DeadLetter) -> str:
    moments = [from_epoch(attempt.get("at")) for attempt in letter.attempts if isinstance(attempt, dict)]
    known = [moment for moment in moments if moment is not None]
    if len(known) < 2:
        return ""
    return f" in {span((max(known) - min(known)).total_seconds())}"


def _exhausted(letter: DeadLetter) -> str:
    return f"{_failed(letter)} and was given up"


def _too_old(letter: DeadLetter) -> str:
    return f"{_failed(letter)}, reached its age limit and was given up"


def _not_retryable(letter: DeadLetter) -> str:
    if runs_of(letter) == 1:
        return f"{_task(letter)} failed with an error that is not retried"
    return f"{_failed(letter)}, the last time with an error that is not retried"


def _time_limit(letter: DeadLetter) -> str:
    return f"{_task(letter)} ran into its hard time limit and was killed"


def _poison(letter: DeadLetter) -> str:
    return f"The process that ran {_task(letter)} died too often, so it is not run again"


def _snoozed(letter: DeadLetter) -> str:
    return f"{_task(letter)} was put off for too long and was given up"


def _unknown_task(letter: DeadLetter) -> str:
    return f"No worker knows the task {letter.task_name or '(no name)'}{_on_queue(letter)}"


def _invalid(letter: DeadLetter) -> str:
    return f"A message that is not a task came{_on_queue(letter)}"


def _undecodable(letter: DeadLetter) -> str:
    return f"A message that cannot be decoded came{_on_queue(letter)}"


def _rejected(letter: DeadLetter) -> str:
    return f"{_task(letter)} rejected its message"


def _wrong_signature(letter: DeadLetter) -> str:
    return f"{_task(letter)} was called with arguments that it does not take"


def _on_queue(letter: DeadLetter) -> str:
    return f" on the queue {letter.queue}" if letter.queue else ""


def _unknown(letter: DeadLetter) -> str:
    return f"{_task(letter)} ended ({letter.reason})"


_TELL: dict[str, Callable[[DeadLetter], str]] = {
    Reason.RETRIES_EXHAUSTED: _exhausted,
    Reason.AGE_EXCEEDED: _too_old,
    Reason.NOT_RETRYABLE: _not_retryable,
    Reason.TIME_LIMIT: _time_limit,
    Reason.POISON: _poison,
    Reason.SNOOZED_TOO_LONG: _snoozed,
    Reason.UNKNOWN_TASK: _unknown_task,
    Reason.INVALID: _invalid,
    Reason.UNDECODABLE: _undecodable,
    Reason.REJECTED: _rejected,
    Reason.WRONG_SIGNATURE: _wrong_signature,
}
