"""Values of a message as any database and any log takes them.

What a message holds is kept whatever it is: if the dead letter store refused it, it would come back for ever.
PostgreSQL takes no NUL character, no half of a surrogate pair and no NaN; JSON takes no objects.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from kombu.utils.json import dumps

MAX_DEPTH = 100
MAX_REPR = 1000
# Python writes no longer number as text (sys.set_int_max_str_digits).
MAX_INT_BITS = 14_000


def plain(value: Any, depth: int = 0) -> Any:
    """Return the value as JSON has it: dates, UUIDs and Decimals in Kombu's encoding, the rest as text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, int):
        return (
            int(value) if value.bit_length() <= MAX_INT_BITS else f"(a number of {value.bit_length()} bits)"
        )
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth > MAX_DEPTH:
        return "(nested too deeply)"
    if isinstance(value, Mapping):
        return {_key(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item, depth + 1) for item in value]
    return _encoded(value)


def plain_text(text: str) -> str:
    """Return the text without what a database refuses."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "backslashreplace").decode("utf-8")


def _key(key: Any) -> str:
    return plain_text(key if isinstance(key, str) else _repr(key))


def _encoded(value: Any) -> Any:
    try:
        # as it goes over the wire, without the decoding of its type
        return plain(json.loads(dumps(value)))
    except Exception:
        return _repr(value)


def _repr(value: Any) -> str:
    try:
        return plain_text(repr(value)[:MAX_REPR])
    except Exception:
        return f"(a {type(value).__name__} that cannot be shown)"
