"""Plain Kombu on the leased transport: connect, consume, publish, and what the broker holds."""

from __future__ import annotations

from typing import Any

import kombu
import redis

from tests.support.redis_server import RedisServer


def connect(server: RedisServer, **options: Any) -> kombu.Connection:
    return kombu.Connection(
        server.url, transport="taskyard.transport.redis:Transport", transport_options=options
    )


def drain(connection: kombu.Connection, *, seconds: float = 0.3) -> None:
    """Handle events until none comes for so long."""
    try:
        while True:
            connection.drain_events(timeout=seconds)
    except TimeoutError:
        return


def consume(
    connection: kombu.Connection, *queues: str, prefetch: int = 10, no_ack: bool = False
) -> tuple[Any, list[Any]]:
    """Consume from the queues; return the channel, and the list to which received messages are added."""
    received: list[Any] = []
    channel = connection.channel()
    channel.basic_qos(0, prefetch, False)
    bound = [kombu.Queue(queue, kombu.Exchange(queue), queue)(channel) for queue in queues]
    consumer = kombu.Consumer(channel, bound, on_message=received.append, accept=["json"], no_ack=no_ack)
    consumer.consume()
    return channel, received


def publish(connection: kombu.Connection, queue: str, *bodies: Any, **options: Any) -> None:
    producer = kombu.Producer(connection)
    for body in bodies:
        producer.publish(body, exchange="", routing_key=queue, serializer="json", **options)


def leased(client: redis.Redis) -> int:
    """Return how many messages are leased."""
    return sum(client.hlen(key) for key in client.keys("taskyard:lease:*"))
