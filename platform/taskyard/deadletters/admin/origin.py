"""Where a letter comes from: what leads to it in logs, on the broker and among other letters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

from taskyard.deadletters.models import DeadLetter
from taskyard.wording import from_epoch, utc

_NOT_KNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of the table."""

    name: str
    text: str
    url: str = ""
    note: str = ""


def origin_of(letter: DeadLetter, *, list_url: str, task_url: str = "") -> list[Fact]:
    """Return the lines that there are.

    Args:
        list_url: of the list of letters, for those with the same correlation id.
        task_url: of the page with the task's progress; "" where there is none.
    """
    return [fact for fact in _facts(letter, list_url, task_url) if fact.text]


def _facts(letter: DeadLetter, list_url: str, task_url: str) -> Iterator[Fact]:
    yield Fact("Task", letter.task_name or _NOT_KNOWN)
    yield Fact(
        "Task id",
        letter.task_id or _NOT_KNOWN,
        task_url,
        note="its progress and checkpoint" if task_url else "",
    )
    if letter.correlation_id:
        same = urlencode({"status": "all", "search": letter.correlation_id})
        yield Fact(
            "Correlation id",
            letter.correlation_id,
            f"{list_url}?{same}",
            note="letters of the same request or run",
        )
    yield Fact("Queue", letter.queue or _NOT_KNOWN)
    yield Fact(
        "Priority", "" if letter.priority is None else str(letter.priority), note="9 is the most urgent"
    )
    yield Fact("Worker", letter.worker, note="of the last run")
    yield Fact("Retries", f"{letter.retries:,}" if letter.retries else "")
    yield Fact("First published", _moment(letter, "first_published_at"), note="UTC")
    yield Fact("Fault", letter.fingerprint, note="the fingerprint: task, reason, type and place of the error")


def _moment(letter: DeadLetter, header: str) -> str:
    headers = letter.headers if isinstance(letter.headers, dict) else {}
    moment = from_epoch(headers.get(header))
    return "" if moment is None else utc(moment)
