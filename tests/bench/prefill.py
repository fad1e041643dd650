"""Fills a queue with many messages quickly: one published by the system itself, the rest made from it.

The bytes are what the system would have sent, with ids and arguments of their own.
"""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any

from tests.bench.processes import forget
from tests.bench.servers import RedisServer
from tests.bench.systems import System

PIPELINE = 1000
PUBLISH_TIMEOUT_SECONDS = 60


def prefill(
    system: System, broker: RedisServer, task: str, queue: str, count: int, *, seconds: float = 0.0
) -> None:
    """Put `count` messages of a probe task on an empty queue.

    Raises:
        RuntimeError: the system did not publish the first one.
    """
    ledger = system.directory / f"prefill-{task}.ledger"
    child = system.start_python(
        "prefill", "tests.bench.publisher", str(ledger), task, "1", "1", "1", str(seconds)
    )
    if child.wait(PUBLISH_TIMEOUT_SECONDS) != 0:
        raise RuntimeError(f"The first message was not published; see {system.directory}/prefill.log.")
    forget(child)
    with broker.raw_client() as client:
        pattern = client.rpop(queue)
        if pattern is None:
            raise RuntimeError(
                f"The first message is not in the list {queue!r}: the layout of the queue is another one."
            )
        for first in range(0, count, PIPELINE):
            numbers = range(first, min(first + PIPELINE, count))
            client.lpush(queue, *(copy_of(json.loads(pattern), number, seconds) for number in numbers))


def copy_of(envelope: dict[str, Any], number: int, seconds: float) -> bytes:
    """Return a message like this one, with an id of its own and other arguments."""
    task_id = str(uuid.uuid4())
    headers, properties = envelope["headers"], envelope["properties"]
    _, kwargs, embedded = json.loads(base64.b64decode(envelope["body"]))
    headers["id"] = headers["root_id"] = properties["correlation_id"] = task_id
    headers["argsrepr"] = f"({number}, {seconds})"
    if "correlation_id" in headers:
        headers["correlation_id"] = task_id
    properties["delivery_tag"] = str(uuid.uuid4())
    body = json.dumps([[number, seconds], kwargs, embedded]).encode()
    envelope["body"] = base64.b64encode(body).decode()
    return json.dumps(envelope).encode()
