"""Kombu's in-memory transport with batches like those of Redis, and a broker that can be made to fail."""

from __future__ import annotations

from typing import Any

from kombu.exceptions import BatchPublishError
from kombu.transport import memory


class Broker:
    """What fails, for the next operations; reset by the tests."""

    fail_flush: Exception | None = None
    fail_publish_after: int | None = None
    flushes: list[int] = []

    @classmethod
    def reset(cls) -> None:
        cls.fail_flush, cls.fail_publish_after, cls.flushes = None, None, []
        ImmediateChannel.published = 0


class Batch:
    """Holds messages back until the flush, which fails as a whole."""

    def __init__(self, channel: Any, max_size: int) -> None:
        self.channel, self.max_size, self.held = channel, max_size, []

    def publish(self, message: Any, **kwargs: Any) -> None:
        _fail_if_due(len(self.held))
        self.held.append((message, kwargs))
        if len(self.held) >= self.max_size:
            self.flush()

    def flush(self) -> None:
        held, self.held = self.held, []
        if not held:
            return
        Broker.flushes.append(len(held))
        if Broker.fail_flush is not None:
            raise BatchPublishError("delivery is uncertain") from Broker.fail_flush
        for message, kwargs in held:
            memory.Channel.basic_publish(self.channel, message, **kwargs)

    def discard(self) -> None:
        self.held = []

    def close(self) -> None:
        self.held = []


class Channel(memory.Channel):
    def create_publish_batch(self, max_size: int) -> Batch:
        return Batch(self, max_size)


class BatchingTransport(memory.Transport):
    """Publishes in batches."""

    Channel = Channel
    connection_errors = recoverable_connection_errors = (ConnectionError,)
    implements = memory.Transport.implements.extend(batch_publish=True)


class ImmediateChannel(memory.Channel):
    published = 0

    def basic_publish(self, message: Any, *args: Any, **kwargs: Any) -> Any:
        _fail_if_due(type(self).published)
        type(self).published += 1
        return super().basic_publish(message, *args, **kwargs)


class ImmediateTransport(memory.Transport):
    """Knows no batches: every message goes out at once."""

    Channel = ImmediateChannel
    connection_errors = recoverable_connection_errors = (ConnectionError,)


def _fail_if_due(count: int) -> None:
    if Broker.fail_publish_after is not None and count >= Broker.fail_publish_after:
        raise ConnectionError("the broker went away")
