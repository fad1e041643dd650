"""What dead processes have left on the broker: found, listed, and removed on request.

Messages are never removed. A lease that has lost its entry in the list of leases (an operator deleted it,
say) is entered again as expired, so that the next live worker brings its messages back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kombu.utils.encoding import bytes_to_str

from taskyard.transport.keys import LeaseKeys

# A reply that nobody has read for so long has no reader any more.
REPLY_IDLE_SECONDS = 3600
REPLY_PATTERN = "*.reply.celery.pidbox"


@dataclass(frozen=True, slots=True)
class Leftover:
    """One thing that is left.

    Args:
        kind: "messages without a lease", "holder without a lease" or "unread replies".
        key: the key, or the lease id within it.
        detail: for people.
    """

    kind: str
    key: str
    detail: str


def find(client: Any, *, prefix: str = "", reply_idle_seconds: int = REPLY_IDLE_SECONDS) -> list[Leftover]:
    """Return what dead processes have left."""
    keys = LeaseKeys(prefix)
    alive = {bytes_to_str(lease_id) for lease_id in client.zrange(keys.leases, 0, -1)}
    return [
        *_orphans(client, keys, alive),
        *(
            Leftover("holder without a lease", lease_id, "no messages")
            for lease_id in map(bytes_to_str, client.hkeys(keys.holders))
            if lease_id not in alive
        ),
        *_replies(client, prefix, reply_idle_seconds),
    ]


def _orphans(client: Any, keys: LeaseKeys, alive: set[str]) -> Iterator[Leftover]:
    start = keys.messages("")
    for found in client.scan_iter(match=f"{_escape(start)}*", count=500):
        lease_id = bytes_to_str(found).removeprefix(start)
        if lease_id not in alive and client.zscore(keys.leases, lease_id) is None:
            yield Leftover("messages without a lease", lease_id, f"{client.hlen(found)} messages")


def _replies(client: Any, prefix: str, idle_seconds: int) -> Iterator[Leftover]:
    for found in client.scan_iter(match=f"{_escape(prefix)}{REPLY_PATTERN}", count=500):
        idle = client.object("idletime", found)
        if client.type(found) == b"list" and idle is not None and idle >= idle_seconds:
            yield Leftover(
                "unread replies", bytes_to_str(found), f"{client.llen(found)} replies, idle {idle} s"
            )


def remove(client: Any, leftovers: Sequence[Leftover], *, prefix: str = "") -> None:
    """Remove leftovers; messages without a lease are given back by the next live worker."""
    keys = LeaseKeys(prefix)
    for item in leftovers:
        if item.kind == "messages without a lease":
            client.zadd(keys.leases, {item.key: 0}, nx=True)
        elif item.kind == "holder without a lease":
            client.hdel(keys.holders, item.key)
        else:
            client.delete(item.key)


def _escape(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "*?[]\\" else letter for letter in text)
