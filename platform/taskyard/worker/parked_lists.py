"""From the broker's lists of undecodable messages to the dead letter store, where the store was away before.

Such a message has no id by which a second row would be known for one. So one worker at a time does it, and
only with what it has seen in the list a round ago: what its finder is just storing is left alone.
"""

from __future__ import annotations

from typing import Any

import structlog
from redis.exceptions import RedisError

from taskyard.transport.envelope import decode_envelope
from taskyard.transport.undecodable import SUFFIX, UndecodableMessageError, store_parked

log = structlog.stdlib.get_logger("taskyard.worker")

INTERVAL_SECONDS = 5.0
MESSAGES_A_ROUND = 50
LOCK_SECONDS = 30


class ParkedLists:
    """The lists of the queues of one worker, emptied round by round."""

    def __init__(self) -> None:
        self._seen: dict[str, frozenset[bytes]] = {}

    def drain(self, consumer: Any) -> None:
        """Store what lay in the lists a round ago already."""
        connection, task_consumer = consumer.connection, consumer.task_consumer
        if connection is None or task_consumer is None:
            return
        channel = connection.default_channel
        if not hasattr(channel, "plain_client"):
            return
        try:
            for queue in task_consumer.queues:
                self._drain_queue(channel.plain_client, channel.global_keyprefix, queue.name)
        except (*channel.connection_errors, channel.ResponseError) as error:
            log.debug("lists of undecodable messages not read, it is tried again", error=str(error))

    def _drain_queue(self, client: Any, prefix: str, queue: str) -> None:
        key = f"{prefix}{queue}{SUFFIX}"
        raws = [bytes(raw) for raw in client.lrange(key, -MESSAGES_A_ROUND, -1)]
        known = self._seen.get(queue, frozenset())
        self._seen[queue] = frozenset(raws)
        old = [raw for raw in reversed(raws) if raw in known]
        lock = f"{key}.lock"
        if not old or not client.set(lock, "1", nx=True, ex=LOCK_SECONDS):
            return
        try:
            for raw in old:
                if not _store(client, queue, raw, prefix):
                    return
        finally:
            client.delete(lock)


def _store(client: Any, queue: str, raw: bytes, prefix: str) -> bool:
    try:
        return store_parked(client, queue=queue, raw=raw, error=_what_is_wrong(raw), prefix=prefix)
    except RedisError:
        raise
    except Exception:
        # why is in the log of the store; the next round tries again
        return False


def _what_is_wrong(raw: bytes) -> Exception:
    try:
        decode_envelope(raw)
    except UndecodableMessageError as error:
        return error
    return UndecodableMessageError("it could not be decoded when it came")
