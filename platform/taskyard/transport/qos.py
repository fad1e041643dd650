"""Acknowledgements and the prefetch window, kept in the lease: they outlive the channel."""

from __future__ import annotations

import logging
from typing import Any

from kombu.transport import redis as kombu_redis
from kombu.transport.virtual import QoS as VirtualQoS

logger = logging.getLogger(__name__)


class QoS(kombu_redis.QoS):
    """Kombu's interface to what the lease holds."""

    def __init__(self, channel: Any, prefetch_count: int = 0) -> None:
        super().__init__(channel, prefetch_count)
        # Kombu restores at the end of the process; so do the leases, and over a live connection.
        self._on_collect.cancel()

    def can_consume(self) -> bool:
        return not self.prefetch_count or len(self.channel.lease.held) < self.prefetch_count

    def can_consume_max_estimate(self) -> int | None:
        if not self.prefetch_count:
            return None
        return max(0, self.prefetch_count - len(self.channel.lease.held))

    def append(self, message: Any, delivery_tag: int) -> None:
        # The fetch has leased it already.
        VirtualQoS.append(self, message, delivery_tag)

    def holds(self, delivery_tag: int) -> bool:
        """Return whether the message is still ours to run and to acknowledge."""
        return bool(self.channel.lease.holds(delivery_tag))

    def ack(self, delivery_tag: int) -> None:
        if self.channel.lease.ack(delivery_tag):
            self.channel.settle_unless_polled()
        else:
            self._log_lost(delivery_tag, "acknowledged")
        self._delivered.pop(delivery_tag, None)

    def reject(self, delivery_tag: int, requeue: bool = False) -> None:
        if not requeue:
            self.ack(delivery_tag)
            return
        if self.channel.lease.give_back(delivery_tag, to_front=self.channel.leases.is_stopping):
            self.channel.give_back_soon()
        else:
            self._log_lost(delivery_tag, "put back")
        self._delivered.pop(delivery_tag, None)

    def restore_unacked(self, client: Any = None) -> None:  # noqa: ARG002 - Kombu's signature
        for tag in sorted(self._delivered):
            self.channel.lease.give_back(tag, to_front=True)
        self._delivered.clear()
        self.channel.give_back_soon()

    def restore_unacked_once(self, stderr: Any = None) -> None:
        """Do nothing: closing the channel settles the lease."""

    def _log_lost(self, delivery_tag: int, what: str) -> None:
        logger.warning(
            "Message %s was %s after its lease had ended: it is with another worker or was put back, and "
            "stays there.",
            delivery_tag,
            what,
        )
