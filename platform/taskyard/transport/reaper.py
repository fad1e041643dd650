"""What brings back the messages of dead workers. Every live worker does it; of several exactly one succeeds.

The reaper first adopts the expired lease as a whole, under an id of its own: from then on the former holder,
should it thaw, has no lease. If the reaper dies in the middle, its own lease expires and is reaped in turn.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from typing import Any
from uuid import uuid4

from kombu.utils.encoding import bytes_to_str

from taskyard.transport.envelope import raise_delivery_count
from taskyard.transport.fetcher import queue_of_key
from taskyard.transport.keys import dead_key
from taskyard.transport.scripts import script

logger = logging.getLogger(__name__)

LEASES_A_ROUND = 20
MESSAGES_A_CALL = 200
NOT_EXPIRED = -1


def reap(channel: Any) -> int:
    """Bring back the messages of expired leases; return how many."""
    client, keys, leases = channel.plain_client, channel.lease_keys, channel.leases
    if leases.reap_not_before is None:
        # After a restart of the broker every lease looks old, until its worker has connected again.
        uptime = float(client.info("server").get("uptime_in_seconds", 0))
        leases.reap_not_before = time.monotonic() + max(0.0, leases.ttl_seconds - uptime)
    if time.monotonic() < leases.reap_not_before:
        return 0
    expired = script("expired").run(client, [keys.leases], [LEASES_A_ROUND])
    return sum(_reap_lease(channel, client, bytes_to_str(lease_id)) for lease_id in expired)


def _reap_lease(channel: Any, client: Any, expired_id: str) -> int:
    keys = channel.lease_keys
    own_id = f"reaper:{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
    names = [keys.leases, keys.holders, keys.messages(own_id), keys.messages(expired_id)]
    listed = script("adopt").run(
        client, names, [own_id, channel.leases.ttl_microseconds, 1, "{}", expired_id]
    )
    if listed == NOT_EXPIRED:
        return 0
    # The newest first: each goes to the front, so the oldest ends as the next one to be fetched.
    pairs = sorted(
        ((int(listed[place]), bytes(listed[place + 1])) for place in range(0, len(listed), 2)), reverse=True
    )
    moved = _move(channel, client, own_id, []) if not pairs else 0
    for start in range(0, len(pairs), MESSAGES_A_CALL):
        moved += _move(channel, client, own_id, pairs[start : start + MESSAGES_A_CALL])
    if moved:
        logger.warning("The lease %s has expired: %d messages went back to their queues.", expired_id, moved)
    return moved


def _move(channel: Any, client: Any, lease_id: str, pairs: list[tuple[int, bytes]]) -> int:
    keys = channel.lease_keys
    names = [keys.leases, keys.holders, keys.messages(lease_id)]
    arguments: list[Any] = [lease_id, channel.leases.ttl_microseconds]
    for tag, value in pairs:
        key, _, raw = value.partition(b"\n")
        message, count = raise_delivery_count(raw)
        destination = bytes_to_str(key)
        if channel.max_deliveries and count >= channel.max_deliveries:
            prefix = channel.global_keyprefix
            destination = prefix + dead_key(queue_of_key(key, prefix, channel.sep))
            logger.error(
                "A message was lost with its worker %d times: it goes to the list %s.", count, destination
            )
        names.append(destination)
        arguments += [tag, message]
    moved: int = script("move").run(client, names, arguments)
    return moved
