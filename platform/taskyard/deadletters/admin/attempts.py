"""The runs of a letter, as its table shows them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from taskyard.deadletters.models import DeadLetter
from taskyard.wording import from_epoch


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run.

    Args:
        at: when it ended; None where nobody knows.
    """

    number: str
    at: datetime | None
    worker: str
    error: str
    traceback: str


def attempts_of(letter: DeadLetter) -> list[Attempt]:
    """Return the runs, the last one first: it is the one that people look at."""
    return list(_attempts(letter.attempts))[::-1]


def _attempts(kept: Any) -> Iterator[Attempt]:
    for place, attempt in enumerate(kept if isinstance(kept, list) else []):
        if isinstance(attempt, dict):
            yield Attempt(
                number=str(attempt.get("number", place + 1)),
                at=from_epoch(attempt.get("at")),
                worker=str(attempt.get("worker") or ""),
                error=str(attempt.get("error") or ""),
                traceback=str(attempt.get("traceback") or ""),
            )
