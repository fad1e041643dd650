"""Putting back what a consumer does not want to acknowledge: to the front unchanged, to the end marked.

To the front goes what was not begun. What a consumer has put back itself goes to the end, and says so in its
`redelivered`, as with every broker.
"""

from __future__ import annotations

from typing import Any

from taskyard.transport.envelope import mark_redelivered
from taskyard.transport.scripts import script


def give_back(channel: Any) -> None:
    """Put back all that the lease has noted for it.

    Raises:
        RedisError: the broker did not answer; what was not put back is noted still.
    """
    lease, keys = channel.lease, channel.lease_keys
    names = [keys.leases, keys.holders, keys.messages(lease.id)]
    for to_front in (True, False):
        tags = [tag for tag, front in lease.returns if front is to_front]
        if not tags:
            continue
        if not to_front:
            _mark(channel, tags)
        where = "RPUSH" if to_front else "LPUSH"
        script("give_back").run(channel.plain_client, names, [lease.id, where, 0, 0, *tags])
        for tag in tags:
            lease.returns.remove((tag, to_front))


def _mark(channel: Any, tags: list[int]) -> None:
    key = channel.lease_keys.messages(channel.lease.id)
    arguments: list[Any] = []
    for tag, value in zip(tags, channel.plain_client.hmget(key, tags), strict=True):
        if value is not None:
            list_key, _, raw = bytes(value).partition(b"\n")
            arguments += [tag, list_key + b"\n" + mark_redelivered(raw)]
    script("mark").run(channel.plain_client, [key], arguments)
