"""The short way to the broker: finished messages, one command each, over connections of its own.

Kombu's way from a producer to the socket costs more than the socket. Here it is left out for the case that is
nearly all of them: a plain message for a queue that this process has declared, on a connection that works. In
every other case, and at the first sign of trouble, the caller goes Kombu's way, which connects again, fails
over, and has the right error. A message that was under way then is not stored twice: it carries a mark
(`put.lua`).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from typing import Any

from redis.connection import ConnectionPool
from redis.exceptions import RedisError, ResponseError

from taskyard.transport.keys import key_for_step, step_for_priority
from taskyard.transport.publishing import MARK_MILLISECONDS
from taskyard.transport.scripts import script

FAILURES = (RedisError, OSError)
# Beyond this many, connections of threads that have published at the same moment are not kept.
KEPT_CONNECTIONS = 32


class NotConnectedError(Exception):
    """There is no connection; nothing was sent. Never leaves the kit."""


class DirectPublisher:
    """Pushes finished messages to the lists of one broker.

    Args:
        channel: an open channel of the leased transport; where its server is, and how it is reached.

    Thread-safe. Not to be used after a fork: `is_usable` tells.
    """

    def __init__(self, channel: Any) -> None:
        self._make = channel.pool.make_connection
        self._prefix = channel.global_keyprefix
        self._pid = os.getpid()
        self._idle: deque[Any] = deque(maxlen=KEPT_CONNECTIONS)
        self._put = _pack("EVALSHA", script("put").sha, 2)
        self._lifetime = _pack(MARK_MILLISECONDS)
        self._keys: dict[tuple[str, int], bytes] = {}

    @staticmethod
    def serves(channel: Any) -> bool:
        """Return whether the channel's server is reached by a plain address: Sentinel's changes."""
        return type(channel.pool).__mro__[0] is ConnectionPool

    @property
    def is_usable(self) -> bool:
        return self._pid == os.getpid()

    def push(self, queue: str, priority: int, raw: bytes, mark: str) -> None:
        """Publish one message, once, however often it is sent with the same mark.

        Raises:
            RedisError, OSError: it may have arrived; publish it again with the same mark.
        """
        key = self._key(queue, priority)
        mark_part, raw_part = _pack(self._prefix + mark), _pack(raw)
        command = b"*7\r\n%b%b%b%b%b" % (self._put, mark_part, key, self._lifetime, raw_part)
        self._ask(self._take(), command)

    def push_many(self, queue: str, priority: int, raws: Sequence[bytes]) -> None:
        """Publish many messages in one round trip.

        Raises:
            NotConnectedError: nothing was sent.
            RedisError, OSError: nobody knows which of them have arrived.
        """
        connection = self._take_live()
        command = b"*%d\r\n%b%b%b" % (len(raws) + 2, _LPUSH, self._key(queue, priority), _pack(*raws))
        self._ask(connection, command)

    def close(self) -> None:
        """Close what is idle."""
        while self._idle:
            self._idle.pop().disconnect()

    def _key(self, queue: str, priority: int) -> bytes:
        place = (queue, priority)
        if place not in self._keys:
            self._keys[place] = _pack(self._prefix + key_for_step(queue, step_for_priority(priority)))
        return self._keys[place]

    def _take(self) -> Any:
        try:
            return self._idle.pop()
        except IndexError:
            return self._make()

    def _take_live(self) -> Any:
        """Return a connection that was open a moment ago."""
        connection = self._take()
        try:
            connection.connect()
            if connection.can_read(0):
                # nothing is expected: the server has closed it
                connection.disconnect()
                connection.connect()
        except FAILURES as error:
            connection.disconnect()
            raise NotConnectedError from error
        return connection

    def _ask(self, connection: Any, packed: bytes) -> None:
        try:
            connection.send_packed_command((packed,))
            connection.read_response()
        except ResponseError:
            self._idle.append(connection)
            raise
        except BaseException:
            # an answer may be left in it
            connection.disconnect()
            raise
        self._idle.append(connection)


def _pack(*parts: str | bytes | int) -> bytes:
    """Return the parts of a command as the protocol wants them (RESP bulk strings)."""
    packed = []
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        packed.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(packed)


_LPUSH = _pack("LPUSH")
