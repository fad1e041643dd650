"""The transports behind redis://, rediss:// and sentinel://: Kombu's, with leased messages.

Queue keys and messages are Kombu's, so stock producers, workers, Flower and exporters work on the same
queues. What differs is told in the guide, "How a task survives"; the keys are in the reference, "Redis keys".
"""

from __future__ import annotations

from typing import Any

from kombu.transport import redis as kombu_redis

from taskyard.transport.channel import Channel, SentinelChannel
from taskyard.transport.poller import REAP_SECONDS, Poller

__all__ = ["Channel", "SentinelChannel", "SentinelTransport", "Transport"]


class _LeasedTransport:
    """What both transports have in common."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cycle = Poller()

    def register_with_event_loop(self: Any, connection: Any, loop: Any) -> None:
        """Kombu's hook: a worker with an event loop begins to work with this connection."""
        super().register_with_event_loop(connection, loop)  # type: ignore[misc]
        self.cycle.hub = loop
        for channel in self.channels:
            channel.leases.has_event_loop = True
        # in place of Kombu's sweep, which the poller does in its turn
        self.cycle._restore_messages_tref.cancel()
        self.cycle._restore_messages_tref = loop.call_repeatedly(
            REAP_SECONDS / 2, self.cycle.maybe_restore_messages
        )


class Transport(_LeasedTransport, kombu_redis.Transport):
    """The transport behind redis:// and rediss://."""

    Channel = Channel


class SentinelTransport(_LeasedTransport, kombu_redis.SentinelTransport):
    """The transport behind sentinel://."""

    Channel = SentinelChannel
