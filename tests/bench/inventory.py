"""Which probe tasks are where in the broker, whatever the transport's key layout.

Every key is read and searched for message envelopes, so that a transport is judged by what it holds, not by
what it says.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import redis

from taskyard.transport.keys import SEPARATOR

# As plain JSON, as JSON inside JSON (quotes escaped), and as Lua's cjson writes it (slashes escaped).
_BODY = re.compile(rb'\\*"body\\*":\s*\\*"([A-Za-z0-9+/=\\]+?)\\*"')


@dataclass(slots=True)
class Inventory:
    """Task numbers by key of the broker."""

    by_key: dict[str, Counter[int]] = field(default_factory=dict)

    def waiting(self, queue: str) -> Counter[int]:
        """What waits in the queue's own lists."""
        return self._sum(key for key in self.by_key if _is_waiting_list(key, queue))

    def dead(self) -> Counter[int]:
        """What was set aside on the broker."""
        return self._sum(key for key in self.by_key if _is_dead(key))

    def held(self, queue: str) -> Counter[int]:
        """Leased, unacknowledged or delayed: everything that is neither waiting nor set aside."""
        return self._sum(key for key in self.by_key if not _is_waiting_list(key, queue) and not _is_dead(key))

    def held_keys(self, queue: str) -> dict[str, int]:
        """How many of those are in which key."""
        return {
            key: numbers.total()
            for key, numbers in self.by_key.items()
            if not _is_waiting_list(key, queue) and not _is_dead(key)
        }

    def _sum(self, keys: Iterable[str]) -> Counter[int]:
        return sum((self.by_key[key] for key in keys), Counter())


def _is_waiting_list(key: str, queue: str) -> bool:
    return key == queue or key.startswith(queue + SEPARATOR)


def _is_dead(key: str) -> bool:
    return "dead" in key or "poison" in key


def take_inventory(client: redis.Redis) -> Inventory:
    """Read the whole broker; `client` answers bytes."""
    inventory = Inventory()
    for key in client.scan_iter(count=1000):
        numbers = Counter(number for value in _values(client, key) for number in numbers_in(value))
        if numbers:
            inventory.by_key[key.decode()] = numbers
    return inventory


def _values(client: redis.Redis, key: bytes) -> list[bytes]:
    kind = client.type(key)
    if kind == b"list":
        return client.lrange(key, 0, -1)
    if kind == b"hash":
        return [part for pair in client.hgetall(key).items() for part in pair]
    if kind == b"zset":
        return client.zrange(key, 0, -1)
    if kind == b"set":
        return list(client.smembers(key))
    if kind == b"string":
        return [client.get(key) or b""]
    if kind == b"stream":
        return [part for _, fields in client.xrange(key) for pair in fields.items() for part in pair]
    return []


def numbers_in(value: bytes) -> list[int]:
    """Return the task numbers of the message envelopes in a value."""
    return [number for match in _BODY.finditer(value) if (number := _number(match.group(1))) is not None]


def _number(body: bytes) -> int | None:
    try:
        arguments = json.loads(base64.b64decode(body.replace(b"\\", b"")))[0]
        return int(arguments[0])
    except (binascii.Error, ValueError, LookupError, TypeError):
        return None


def count_waiting(client: redis.Redis, queue: str) -> int:
    """Return the length of the queue's lists, cheaply."""
    with client.pipeline(transaction=False) as pipe:
        for key in (queue, *(f"{queue}{SEPARATOR}{step}" for step in range(1, 10))):
            pipe.llen(key)
        return sum(pipe.execute())
