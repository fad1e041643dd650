"""Who did what with a letter, from its first moment on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from taskyard.deadletters.changes import change_text
from taskyard.deadletters.models import DeadLetter, DeadLetterAction
from taskyard.wording import as_json

# What the detail of an action holds, in words.
_WORDS = {"task_id": "as the task", "reason": "reason", "edited": "changed", "bulk_replay": "bulk replay"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the history."""

    at: datetime
    who: str
    what: str
    lines: tuple[str, ...] = ()


def history_of(letter: DeadLetter) -> list[Entry]:
    """Return what happened to the letter, the oldest first."""
    began = Entry(letter.created_at, letter.worker or "a worker", "became a dead letter")
    actions = letter.actions.order_by("pk")
    return [
        began,
        *(Entry(a.at, a.actor, _what(a), tuple(_lines(a.detail))) for a in actions),
    ]


def _what(action: DeadLetterAction) -> str:
    return str(action.get_kind_display())


def _lines(detail: Any) -> Iterator[str]:
    if not isinstance(detail, Mapping):
        return
    told = [change_text(change) for change in detail.get("changes") or ()]
    for name, value in detail.items():
        if name == "changes" or (name == "edited" and told):
            continue
        yield f"{_WORDS.get(name, name.replace('_', ' '))}: {_text(value)}"
    yield from told


def _text(value: Any) -> str:
    if isinstance(value, str | int):
        return str(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return as_json(value)
