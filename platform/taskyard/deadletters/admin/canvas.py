"""What a task was a part of, in words: a replay goes on there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def describe_canvas(canvas: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each part that there is."""
    told = [
        _names("Next in its chain", reversed(_list(canvas.get("chain")))),
        _names("Called when it succeeds", _list(canvas.get("callbacks"))),
        _names("Called when it fails for good", _list(canvas.get("errbacks"))),
        _chord(canvas),
        _group(canvas),
    ]
    return [sentence for sentence in told if sentence]


def _chord(canvas: Mapping[str, Any]) -> str:
    if not canvas.get("chord"):
        return ""
    return f"Part of a chord: {_name(canvas['chord'])} waits for it."


def _group(canvas: Mapping[str, Any]) -> str:
    group = canvas.get("group_id") or canvas.get("group")
    if not group:
        return ""
    place = canvas.get("group_index")
    return f"Number {place + 1} in the group {group}." if isinstance(place, int) else f"In the group {group}."


def _names(what: str, signatures: Any) -> str:
    names = ", ".join(map(_name, signatures))
    return f"{what}: {names}." if names else ""


def _name(signature: Any) -> str:
    named = signature.get("task") if isinstance(signature, Mapping) else signature
    return str(named or "a task without a name")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
