"""JSON as it goes over the wire, written by msgspec where it is installed.

Only plain values (None, bool, int, float, str, list, tuple, dict with text keys) may be given here. For
these the bytes mean the same to every reader, whichever of the two writes them. All else (dates, UUID,
Decimal, lazy strings, subclasses) Kombu encodes, in its own form: msgspec knows some of these types too,
and would write them otherwise.

Measured on a message with one argument: Kombu's `dumps` 9.1 µs, the standard library's encoder 7.3, msgspec
0.7, orjson 0.5. orjson refuses integers above 64 bits.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

try:
    from msgspec.json import Encoder
except ImportError:
    Encoder = None  # type: ignore[assignment, misc]

_SCALARS = frozenset({str, int, float, bool, type(None)})


def is_plain(value: Any) -> bool:
    """Return whether the value consists of JSON's own types only, and of no subclass of them."""
    kind = type(value)
    if kind in _SCALARS:
        return True
    if kind is dict:
        return all(type(key) is str and is_plain(item) for key, item in value.items())
    return (kind is list or kind is tuple) and all(map(is_plain, value))


def make_encoder(encoder_class: Any) -> Callable[[Any], bytes]:
    """Return what encodes plain values.

    Args:
        encoder_class: msgspec's; None for the standard library's.
    """
    # made once: the standard library makes an encoder at each `dumps` that has options
    plain = json.JSONEncoder(separators=(",", ":")).encode
    if encoder_class is None:
        return lambda value: plain(value).encode()
    fast = encoder_class().encode

    def encode(value: Any) -> bytes:
        try:
            encoded: bytes = fast(value)
        except UnicodeEncodeError:
            # half a surrogate pair, which the standard library escapes
            return plain(value).encode()
        return encoded

    return encode


encode_plain = make_encoder(Encoder)
