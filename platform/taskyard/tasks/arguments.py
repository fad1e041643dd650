"""The argument guard: what is published is what the worker will see, and it is small.

Only JSON-native values pass (None, bool, int, float, str, list, tuple, dict with string keys), plus the types
that Kombu's JSON restores exactly (datetime, date, time, UUID, Decimal). A tuple arrives as a list.
"""

from __future__ import annotations

import datetime
import decimal
import logging
import math
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from kombu.utils.json import dumps

from taskyard.errors import ArgumentNotJSONError, ArgumentTooLargeError

logger = logging.getLogger(__name__)

_NATIVE = (str, bool, int, type(None))
_RESTORED = (datetime.datetime, datetime.date, datetime.time, uuid.UUID, decimal.Decimal)
# Python writes no longer number as text (sys.set_int_max_str_digits), and no worker would read one.
_MAX_INT_BITS = 14_000
_MAX_DEPTH = 100
# Of a path into deeply nested data, what a person can read.
_SHOWN_PATH = 80


def check_arguments(
    task_name: str, args: Sequence[Any], kwargs: Mapping[str, Any], *, warn_bytes: int, limit_bytes: int
) -> None:
    """Refuse arguments that would change on the way or are too large.

    Args:
        task_name: for the message.
        warn_bytes: log a warning above this size.
        limit_bytes: refuse above this size.

    Raises:
        ArgumentNotJSONError: names the argument and the path to the offending value.
        ArgumentTooLargeError: names the largest argument.
    """
    size = 0
    for place, value in enumerate(args):
        size += _check(task_name, f"argument {place + 1}", value)
    for name, value in kwargs.items():
        size += _check(task_name, f"argument {name!r}", value)
    # an upper bound, so that small arguments, which are nearly all, are not encoded twice
    if size > warn_bytes:
        _check_size(task_name, args, kwargs, warn_bytes=warn_bytes, limit_bytes=limit_bytes)


def _check(task_name: str, path: str, value: Any, depth: int = 0) -> int:
    """Return an upper bound of the encoded size in bytes."""
    kind = type(value)
    if kind is str:
        return _text_bytes(value)
    if kind is int:
        if value.bit_length() > _MAX_INT_BITS:
            raise _not_json(task_name, path, value, "it has too many digits; pass a string")
        return value.bit_length() // 3 + 4
    if value is None or kind is bool:
        return 5
    if kind is float:
        if not math.isfinite(value):
            raise _not_json(task_name, path, value, "JSON has no such number; pass None or a string")
        return 32
    if depth > _MAX_DEPTH:
        raise _not_json(
            task_name, path, value, f"it is nested over {_MAX_DEPTH} levels deep, or contains itself"
        )
    # subclasses too: a task may be given a Celery signature, which is one
    if isinstance(value, dict):
        total = 2
        for key, item in value.items():
            if not isinstance(key, str):
                raise _not_json(
                    task_name, path, key, "the worker would see this key as a string; use string keys"
                )
            total += _text_bytes(key) + 4 + _check(task_name, f"{path}[{key!r}]", item, depth + 1)
        return total
    if kind is tuple or isinstance(value, list):
        return 2 + sum(_check(task_name, f"{path}[{i}]", item, depth + 1) + 2 for i, item in enumerate(value))
    if isinstance(value, _RESTORED):
        return 128 + len(str(value))
    # IntEnum, SafeString, ...: JSON writes the plain value
    if isinstance(value, _NATIVE) or _is_lazy_string(value):
        return _text_bytes(str(value))
    raise _not_json(task_name, path, value, _advice(value))


def _text_bytes(text: str) -> int:
    # Escaped, a character has up to 6 bytes; outside the basic plane 12.
    return len(text) * (6 if text.isascii() else 12) + 2


def _advice(value: Any) -> str:
    if hasattr(value, "_meta") and hasattr(value, "pk"):
        return "pass its primary key and read it in the task"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "store the bytes and pass their key"
    if isinstance(value, (set, frozenset)):
        return "pass a sorted list"
    return "pass a JSON-native value (str, int, float, bool, None, list, dict)"


def _is_lazy_string(value: Any) -> bool:
    return type(value).__module__ == "django.utils.functional" and type(value).__name__ == "__proxy__"


def _not_json(task_name: str, path: str, value: Any, advice: str) -> ArgumentNotJSONError:
    if len(path) > _SHOWN_PATH:
        path = f"{path[:_SHOWN_PATH]}..."
    # The type, not the value: an argument may be a secret.
    return ArgumentNotJSONError(
        f"Task {task_name!r}: {path} is not JSON-native: it is of type {type(value).__name__}. "
        f"{advice[0].upper()}{advice[1:]}."
    )


def _check_size(
    task_name: str, args: Sequence[Any], kwargs: Mapping[str, Any], *, warn_bytes: int, limit_bytes: int
) -> None:
    sizes = {f"argument {place + 1}": encoded_bytes(value) for place, value in enumerate(args)}
    sizes |= {f"argument {name!r}": encoded_bytes(value) for name, value in kwargs.items()}
    total = sum(sizes.values())
    if total <= warn_bytes:
        return
    largest = max(sizes, key=lambda name: sizes[name])
    if total > limit_bytes:
        raise ArgumentTooLargeError(
            f"Task {task_name!r}: the arguments are {total:,} bytes, the limit is {limit_bytes:,} "
            f"(ARGUMENT_LIMIT_BYTES). The largest is {largest} with {sizes[largest]:,}. "
            "Store the data and pass an id."
        )
    logger.warning(
        "Task %s: the arguments are %d bytes, above the warning size of %d; the largest is %s. "
        "Pass ids, not data.",
        task_name,
        total,
        warn_bytes,
        largest,
    )


def encoded_bytes(value: Any) -> int:
    """Return the size of a value in bytes as it goes over the wire."""
    return len(dumps(value).encode())
