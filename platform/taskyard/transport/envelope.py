"""The message as it lies on the broker: decoding, its due time, and its delivery count."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from kombu.transport.virtual import Channel as VirtualChannel
from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import loads

from taskyard.clock import SYSTEM_CLOCK, Clock
from taskyard.transport.undecodable import UndecodableMessageError

# Set on every message that Taskyard publishes (taskyard.tasks.publish).
PUBLISHED_AT = "published_at"
# Message header: how often the message was lost together with its worker.
DELIVERY_COUNT = "x-delivery-count"
# What is due sooner is not worth a detour.
MIN_DELAY_SECONDS = 1.0
# What reading a message raises that is none.
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


def decode_envelope(raw: bytes) -> dict[str, Any]:
    """Return the message envelope.

    Raises:
        UndecodableMessageError: it is something that Kombu would choke on.
    """
    try:
        envelope = loads(bytes_to_str(raw))
        properties = envelope["properties"]
        properties["delivery_tag"], properties["delivery_info"]["routing_key"]
        encoding = properties.get("body_encoding")
        if encoding is not None:
            VirtualChannel.codecs[encoding].decode(envelope.get("body"))
        if not isinstance(envelope.get("headers", {}), dict):
            raise TypeError("headers are not an object")
    except Exception as error:
        raise UndecodableMessageError(f"{type(error).__name__}: {error}") from error
    return envelope


def due_in_microseconds(envelope: dict[str, Any], *, clock: Clock = SYSTEM_CLOCK) -> int | None:
    """Return when the message is due, in microseconds since the epoch; None if that is within a second.

    The server's clock decides when it is handed out; this one only whether it is worth keeping there.
    """
    headers = envelope.get("headers")
    eta = headers.get("eta") if headers else None
    if not eta:
        return None
    try:
        due = eta if isinstance(eta, datetime) else datetime.fromisoformat(str(eta))
        if due.tzinfo is None:
            due = due.replace(tzinfo=UTC)
        if (due - clock.now()).total_seconds() <= MIN_DELAY_SECONDS:
            return None
        return int(due.timestamp() * 1_000_000)
    except (ValueError, OverflowError):
        # the worker's own reading of it will fail with a message that says so
        return None


def raise_delivery_count(raw: bytes) -> tuple[bytes, int]:
    """Return the message marked as redelivered, with its delivery count raised, and the count.

    What cannot be decoded is returned as it is, with a count of 0: the fetch sets it aside.
    """
    try:
        envelope = _redelivered(raw)
        headers = envelope["headers"]
        count = max(0, int(headers.get(DELIVERY_COUNT) or 0)) + 1
        headers[DELIVERY_COUNT] = count
    except _UNREADABLE:
        return raw, 0
    return json.dumps(envelope).encode(), count


def mark_redelivered(raw: bytes) -> bytes:
    """Return the message marked as redelivered; what cannot be decoded as it is."""
    try:
        return json.dumps(_redelivered(raw)).encode()
    except _UNREADABLE:
        return raw


def _redelivered(raw: bytes) -> dict[str, Any]:
    # Plain JSON: dates and the like keep the form in which the producer wrote them.
    envelope: dict[str, Any] = json.loads(raw)
    envelope["headers"] = (envelope.get("headers") or {}) | {"redelivered": True}
    envelope["properties"]["delivery_info"]["redelivered"] = True
    return envelope
