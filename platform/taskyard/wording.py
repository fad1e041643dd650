"""How times, spans, counts and values are written on pages: short, in UTC, without long numbers."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

# The largest unit first: a span is told in its two largest ones.
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_JUST_NOW_SECONDS = 2


def utc(moment: datetime) -> str:
    """Return the moment in UTC, to the second."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def from_epoch(seconds: Any) -> datetime | None:
    """Return the moment, or None where a message holds something else than a time."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def ago(moment: datetime, now: datetime) -> str:
    """Return how long ago it was in the largest unit: `5 min ago`."""
    seconds = (now - moment).total_seconds()
    if seconds < _JUST_NOW_SECONDS:
        return "just now"
    return f"{_in_units(seconds, parts=1)} ago"


def span(seconds: float) -> str:
    """Return a span in its two largest units: `3 h 12 min`."""
    return _in_units(seconds, parts=2)


def _in_units(seconds: float, *, parts: int) -> str:
    if seconds < 1:
        return "less than 1 s"
    rest, words = int(seconds), []
    for size, unit in _UNITS:
        if rest >= size:
            words.append(f"{rest // size} {unit}")
            rest %= size
        elif words:
            break
    return " ".join(words[:parts])


def shorten(text: str, limit: int) -> str:
    """Return the first line of a text, up to a number of characters."""
    lines = text.strip().splitlines()
    first = lines[0] if lines else ""
    return first if len(first) <= limit else f"{first[: limit - 1].rstrip()}\N{HORIZONTAL ELLIPSIS}"


def counted(number: int, one: str, many: str) -> str:
    """Return `1 letter` or `1,200 letters`."""
    return f"{number:,} {one if number == 1 else many}"


def number(value: float) -> str:
    """Return a number as people write it: `10`, `0.5`."""
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def as_json(value: Any) -> str:
    """Return a value as readable JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def as_text(value: Any) -> str:
    """Return a value of a message for reading: texts in quotes, dates and the like without their envelope."""
    return as_json(_without_envelopes(value))


def _without_envelopes(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"__type__", "__value__"}:
            return f"{value['__value__']} ({value['__type__']})"
        return {name: _without_envelopes(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_envelopes(item) for item in value]
    return value
