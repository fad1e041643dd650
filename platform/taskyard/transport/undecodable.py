"""A message that cannot be decoded: it is set aside where people see it, and the worker goes on.

It first goes to the list `<queue>.undecodable` on the broker, in the same form in which it came. If a sink is
set (the dead letter store), it is told, and once the sink has stored the message it leaves the list. What the
sink did not take stays there, until `store_parked` offers it again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger(__name__)

SUFFIX = ".undecodable"
# Called with queue, raw bytes and reason; returns once the message is stored, or raises.
UndecodableSink = Callable[[str, bytes, str], None]
_sinks: list[UndecodableSink] = []


class UndecodableMessageError(ValueError):
    """The bytes on a queue are not a message. Never leaves the transport."""


def set_undecodable_sink(sink: UndecodableSink | None) -> None:
    """Set (or, with None, remove) what stores undecodable messages."""
    _sinks[:] = [] if sink is None else [sink]


def park(client: Any, *, queue: str, raw: bytes, error: Exception) -> None:
    """Set the message aside; it is on the broker's list before anything else can fail."""
    key = f"{queue}{SUFFIX}"
    client.lpush(key, raw)
    if not _sinks:
        logger.error("Message on queue %s cannot be decoded (%s): kept in the list %s.", queue, error, key)
    for sink in _sinks:
        try:
            # logs it, too
            sink(queue, raw, str(error))
        except Exception:
            # why is in the sink's own log
            logger.error(  # noqa: TRY400
                "Message on queue %s cannot be decoded (%s), and the dead letter store did not take it: "
                "kept in the list %s, and tried again.",
                queue,
                error,
                key,
            )
        else:
            client.lrem(key, 1, raw)


def store_parked(client: Any, *, queue: str, raw: bytes, error: Exception, prefix: str = "") -> bool:
    """Offer a message that lies in the list to the sink again. Return whether it has left the list.

    Args:
        prefix: of all keys, where the client does not add it by itself.
    """
    if not _sinks:
        return False
    for sink in _sinks:
        sink(queue, raw, str(error))
    client.lrem(f"{prefix}{queue}{SUFFIX}", -1, raw)
    return True
