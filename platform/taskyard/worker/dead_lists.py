"""From the broker's dead lists to the dead letter store: what was lost with its worker too often becomes a
row.

The row is written before the message leaves the list; of several workers that do it at once, one row remains.
"""

from __future__ import annotations

from typing import Any

import structlog
from billiard.exceptions import WorkerLostError

from taskyard.tasks import failures
from taskyard.transport.envelope import DELIVERY_COUNT, decode_envelope
from taskyard.transport.keys import dead_key
from taskyard.transport.undecodable import UndecodableMessageError
from taskyard.worker.messages import failure_of_lost_run

log = structlog.stdlib.get_logger("taskyard.worker")

INTERVAL_SECONDS = 5.0
MESSAGES_A_ROUND = 50


def drain(consumer: Any) -> int:
    """Store what lies in the dead lists of this worker's queues; return how many messages."""
    connection, task_consumer = consumer.connection, consumer.task_consumer
    if connection is None or task_consumer is None or not hasattr(connection.default_channel, "plain_client"):
        return 0
    channel = connection.default_channel
    stored = 0
    try:
        for queue in task_consumer.queues:
            stored += _drain_queue(channel, queue.name, consumer.app)
    except (*channel.connection_errors, channel.ResponseError) as error:
        log.debug("dead lists not read, it is tried again", error=str(error))
    return stored


def _drain_queue(channel: Any, queue: str, app: Any) -> int:
    client, key = channel.plain_client, channel.global_keyprefix + dead_key(queue)
    for done in range(MESSAGES_A_ROUND):
        raw = client.lindex(key, -1)
        if raw is None:
            return done
        try:
            failures.record(_failure(channel, queue, bytes(raw), app))
        except Exception:
            # it stays in the list, and is tried again in the next round
            return done
        client.lrem(key, -1, raw)
    return MESSAGES_A_ROUND


def _failure(channel: Any, queue: str, raw: bytes, app: Any) -> failures.Failure:
    try:
        envelope = decode_envelope(raw)
    except UndecodableMessageError as error:
        text = raw.decode("utf-8", "backslashreplace")
        return failures.Failure(
            task_name="", task_id="", reason="poison", queue=queue, error=str(error), raw=text
        )
    count = (envelope.get("headers") or {}).get(DELIVERY_COUNT)
    return failure_of_lost_run(
        channel.Message(envelope, channel=channel),
        app,
        reason="poison",
        error=WorkerLostError(f"The worker that ran it died or lost its lease {count} times"),
    )
