"""Delayed messages: on the server, in order, never early, never twice, never in a worker's memory."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import kombu
import pytest
import redis

from taskyard.clock import SYSTEM_CLOCK
from tests.support.leased_kombu import connect, consume, drain, leased, publish
from tests.support.redis_server import RedisServer
from tests.support.valkey_server import EmbeddedValkey
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
DELAYED = "taskyard:delayed:jobs"


@pytest.fixture(scope="module", params=[RedisServer, EmbeddedValkey])
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    server = request.param().start()
    yield server
    server.stop()


@pytest.fixture
def client(server: RedisServer) -> Iterator[redis.Redis]:
    client = server.client()
    client.flushall()
    yield client
    client.close()


def now() -> float:
    return SYSTEM_CLOCK.now().timestamp()


def eta(seconds: float) -> dict[str, Any]:
    return {"eta": (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(), "published_at": 1.0}


def test_delayed_messages_arrive_in_due_order_not_early_and_once(
    server: RedisServer, client: redis.Redis
) -> None:
    with connect(server) as one, connect(server) as two:
        due = {number: now() + 1.5 + 0.1 * number for number in range(10)}
        for number in reversed(range(10)):
            publish(one, "jobs", number, headers=eta(due[number] - now()))
        assert client.llen("jobs") == 0
        (_, first), (_, second) = consume(one, "jobs", prefetch=3), consume(two, "jobs", prefetch=3)
        arrived: list[tuple[int, float]] = []

        def turn() -> bool:
            for connection, received in ((one, first), (two, second)):
                drain(connection, seconds=0.01)
                while received:
                    message = received.pop(0)
                    arrived.append((message.payload, now()))
                    message.ack()
            return len(arrived) >= 10

        wait_until(turn, timeout_seconds=15, what="all delayed messages arrived")
        drain(one)

        assert [number for number, _ in arrived] == list(range(10))
        late = [at - due[number] for number, at in arrived]
        assert min(late) >= -0.002
        assert max(late) < 1.0
        assert client.zcard(DELAYED) == 0
        assert leased(client) == 0


def test_idle_worker_wakes_when_a_message_is_due(server: RedisServer, client: redis.Redis) -> None:
    with connect(server, poll_interval=30) as connection:
        _, received = consume(connection, "jobs")
        drain(connection, seconds=0.1)
        due = now() + 1.3
        publish(connection, "jobs", 1, headers=eta(1.3))

        wait_until(lambda: drain(connection, seconds=0.02) or received, timeout_seconds=5, what="it arrived")

        assert 0 <= now() - due < 0.5


def test_message_due_within_a_second_is_not_delayed(server: RedisServer, client: redis.Redis) -> None:
    with connect(server) as connection:
        publish(connection, "jobs", 1, priority=5, headers=eta(0.5))

        assert client.llen("jobs") == 1
        assert client.zcard(DELAYED) == 0


def test_delayed_message_of_a_stock_producer_is_moved_at_the_fetch(
    server: RedisServer, client: redis.Redis
) -> None:
    with connect(server) as connection, kombu.Connection(server.url) as stock:
        publish(stock, "jobs", *range(20), headers=eta(3600))
        publish(stock, "jobs", "now")
        _, received = consume(connection, "jobs", prefetch=2)

        wait_until(
            lambda: drain(connection, seconds=0.05) or received, timeout_seconds=5, what="the due one came"
        )

        assert [message.payload for message in received] == ["now"]
        assert client.zcard(DELAYED) == 20
        assert leased(client) == 1


def test_delayed_message_keeps_its_priority(server: RedisServer, client: redis.Redis) -> None:
    with connect(server) as connection:
        publish(connection, "jobs", "low", priority=1, headers=eta(1.2))
        publish(connection, "jobs", "high", priority=9, headers=eta(1.4))
        last = client.zrange(DELAYED, 0, -1, withscores=True)[-1][1] / 1e6
        wait_until(lambda: last < now(), timeout_seconds=5, what="both are due")
        _, received = consume(connection, "jobs")
        drain(connection)

        assert [message.payload for message in received] == ["high", "low"]


def test_one_fetch_moves_a_bounded_number(server: RedisServer, client: redis.Redis) -> None:
    with connect(server) as connection:
        past = int((now() - 60) * 1e6)
        publish(connection, "jobs", 0)
        raw = client.rpop("jobs")
        client.zadd(
            DELAYED,
            {
                b"5\n" + raw.replace(b'"priority": 0', b'"priority": 0, "n": %d' % number): past
                for number in range(1000)
            },
        )
        _, received = consume(connection, "jobs", prefetch=1)

        drain(connection, seconds=0.1)

        assert len(received) == 1
        assert client.zcard(DELAYED) == 800
        assert client.llen("jobs") == 199


def test_delayed_messages_are_purged_and_counted(server: RedisServer, client: redis.Redis) -> None:
    with connect(server) as connection:
        publish(connection, "jobs", 1, 2, headers=eta(60))
        publish(connection, "jobs", 3)

        purged = connection.channel().queue_purge("jobs")

        assert purged == 3
        assert not client.exists(DELAYED, "jobs")
