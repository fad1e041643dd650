"""The headers of a message as people read them: times as times, not as epoch seconds."""

from __future__ import annotations

from typing import Any

from taskyard.wording import as_json, from_epoch, utc

# Headers that hold UTC epoch seconds.
_MOMENTS = ("published_at", "first_published_at")


def header_texts(headers: Any) -> list[tuple[str, str]]:
    """Return the headers, sorted, each as text."""
    known = headers if isinstance(headers, dict) else {}
    return [(name, _text(name, value)) for name, value in sorted(known.items())]


def _text(name: str, value: Any) -> str:
    moment = from_epoch(value) if name in _MOMENTS else None
    if moment is not None:
        return f"{utc(moment)} UTC"
    return value if isinstance(value, str) else as_json(value)
