"""Results and holders as JSON text: the same on every store, whatever its own idea of JSON is."""

from __future__ import annotations

import json
from typing import Any


def to_json(value: Any, *, what: str) -> str:
    """Return the value as ASCII JSON, which every store keeps as it is.

    Raises:
        TypeError: the value has no place in JSON; nothing was stored.
    """
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{what} is not JSON: {error}. Use text, numbers, lists and objects.") from error


def from_json(text: str | None) -> Any:
    """Return the value of a stored text; None where there is none."""
    return None if text is None else json.loads(text)
