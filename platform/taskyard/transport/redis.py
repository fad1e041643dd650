"""Kombu's Redis transport with Taskyard's order: strict by queue, then by priority, 9 first.

Also what a preconfigured platform owes its users: an undecodable message does not stop a worker (stock Kombu
raises out of the event loop, and the message is gone), and a publish ends within its budget, whatever the
broker does (see `taskyard.transport.deadline`).
"""

from __future__ import annotations

import logging
from typing import Any

from kombu.transport import redis as kombu_redis
from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import loads

from taskyard.transport.deadline import DeadlineConnection, DeadlineSSLConnection
from taskyard.transport.keys import STEPS_BY_URGENCY, key_for_step, step_for_priority
from taskyard.transport.undecodable import UndecodableMessageError, park

# Set on every message that Taskyard publishes (taskyard.tasks.publish).
PUBLISHED_AT = "published_at"

logger = logging.getLogger(__name__)


class Channel(kombu_redis.Channel):
    """A channel that serves queues strictly in the order given, each by priority."""

    queue_order_strategy = "priority"
    priority_steps = STEPS_BY_URGENCY
    connection_class = DeadlineConnection
    connection_class_ssl = DeadlineSSLConnection

    def _get_message_priority(self, message: dict[str, Any], reverse: bool = False) -> int:  # noqa: ARG002 - Kombu's signature
        try:
            priority = int(message["properties"]["priority"])
            # A stock producer that states no priority sends 0, its most urgent and our least.
            is_ours = PUBLISHED_AT in message["headers"]
        except (TypeError, ValueError, KeyError):
            return step_for_priority(None)
        return step_for_priority(priority if is_ours or priority else None)

    def _q_for_pri(self, queue: str, pri: int) -> str:
        return key_for_step(queue, pri)

    def _brpop_keys(self) -> list[str]:
        # Queue first, step second: Kombu has it the other way, so that a priority on `bulk` would overtake
        # `critical`.
        queues = self._queue_cycle.consume(len(self.active_queues))
        return [key_for_step(queue, step) for queue in queues for step in self.priority_steps]

    def _brpop_start(self, timeout: float | None = None) -> None:
        keys = self._brpop_keys()
        if not keys:
            return
        self._in_poll = self.client.connection
        self._brpop_sent_at = kombu_redis.monotonic()
        arguments = ["BRPOP", *keys, (self.brpop_timeout if timeout is None else timeout) or 0]
        if self.global_keyprefix:
            arguments = self.client._prefix_args(arguments)
        self.client.connection.send_command(*arguments)

    def _brpop_read(self, **options: Any) -> bool:
        try:
            try:
                reply = self.client.parse_response(self.client.connection, "BRPOP", **options)
            except self.connection_errors:
                # the next iteration connects again
                self.client.connection.disconnect()
                raise
            if not reply:
                raise kombu_redis.Empty
            queue, raw = bytes_to_str(reply[0]).rsplit(self.sep, 1)[0], bytes(reply[1])
            self._queue_cycle.rotate(queue)
            self._deliver_or_park(queue, raw)
            return True
        finally:
            self._in_poll = None
            self._flush_brpop_reauth()

    def _deliver_or_park(self, queue: str, raw: bytes) -> None:
        try:
            envelope = decode_envelope(raw)
        except UndecodableMessageError as error:
            with self.conn_or_acquire() as client:
                park(client, queue=queue, raw=raw, error=error)
            return
        self.connection._deliver(envelope, queue)


def decode_envelope(raw: bytes) -> dict[str, Any]:
    """Return the message envelope, or raise `UndecodableMessageError` for what Kombu would choke on."""
    try:
        envelope = loads(bytes_to_str(raw))
        properties = envelope["properties"]
        properties["delivery_tag"], properties["delivery_info"]["routing_key"]
        encoding = properties.get("body_encoding")
        if encoding is not None:
            kombu_redis.virtual.Channel.codecs[encoding].decode(envelope.get("body"))
        if not isinstance(envelope.get("headers", {}), dict):
            raise TypeError("headers are not an object")
    except Exception as error:
        raise UndecodableMessageError(f"{type(error).__name__}: {error}") from error
    return envelope


class Transport(kombu_redis.Transport):
    """The transport behind redis:// and rediss://."""

    Channel = Channel


class SentinelChannel(Channel, kombu_redis.SentinelChannel):
    """The same order on a channel that asks Sentinel for the primary."""

    from_transport_options = kombu_redis.SentinelChannel.from_transport_options
    connection_class = kombu_redis.SentinelChannel.connection_class
    connection_class_ssl = kombu_redis.SentinelChannel.connection_class_ssl


class SentinelTransport(kombu_redis.SentinelTransport):
    """The transport behind sentinel://."""

    Channel = SentinelChannel
