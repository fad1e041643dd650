"""Fetching: leased in the same call, never shared, in order, within the window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kombu
import pytest
import redis

from taskyard.errors import ConfigurationError
from taskyard.transport import undecodable
from taskyard.transport.keys import LeaseKeys
from taskyard.transport.scripts import script
from tests.support.leased_kombu import connect, consume, drain, leased, publish
from tests.support.redis_server import RedisServer, free_port
from tests.support.valkey_server import EmbeddedValkey
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
KEYS = LeaseKeys()


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


def test_fetched_message_is_in_a_lease_and_nowhere_else(server: RedisServer, client: redis.Redis) -> None:
    with connect(server) as connection:
        publish(connection, "jobs", 1)
        _, received = consume(connection, "jobs")

        drain(connection)

        assert [message.payload for message in received] == [1]
        assert client.llen("jobs") == 0
        assert leased(client) == 1


def test_acknowledgement_ends_the_lease_of_the_message(server: RedisServer, client: redis.Redis) -> None:
    with connect(server) as connection:
        publish(connection, "jobs", 1, 2)
        _, received = consume(connection, "jobs")
        drain(connection)

        received[0].ack()

        assert leased(client) == 1


def test_two_consumers_never_share_a_message(server: RedisServer, client: redis.Redis) -> None:
    with connect(server) as one, connect(server) as two:
        publish(one, "jobs", *range(300))
        (_, first), (_, second) = consume(one, "jobs", prefetch=7), consume(two, "jobs", prefetch=7)
        seen: list[int] = []

        def turn() -> bool:
            for connection, received in ((one, first), (two, second)):
                drain(connection, seconds=0.01)
                while received:
                    message = received.pop()
                    seen.append(message.payload)
                    message.ack()
            return len(seen) >= 300

        wait_until(turn, timeout_seconds=30, what="all messages were received")

        assert sorted(seen) == list(range(300))


def test_window_is_never_exceeded(server: RedisServer, client: redis.Redis) -> None:
    with connect(server) as connection:
        publish(connection, "jobs", *range(20))
        _, received = consume(connection, "jobs", prefetch=4)

        drain(connection)

        assert len(received) == 4
        assert client.llen("jobs") == 16


def test_order_is_queue_first_then_priority(server: RedisServer, client: redis.Redis) -> None:
    with connect(server) as connection:
        headers = {"published_at": 1.0}
        publish(connection, "bulk", "bulk-9", priority=9, headers=headers)
        publish(connection, "critical", "critical-0", priority=0, headers=headers)
        publish(connection, "critical", "critical-5", "critical-5b", priority=5, headers=headers)
        publish(connection, "critical", "critical-9", priority=9, headers=headers)
        _, received = consume(connection, "critical", "bulk")

        drain(connection)

        order = [message.payload for message in received]
        assert order == ["critical-9", "critical-5", "critical-5b", "critical-0", "bulk-9"]


def test_close_gives_everything_back_in_order(server: RedisServer, client: redis.Redis) -> None:
    with connect(server) as connection:
        publish(connection, "jobs", *range(6))
        channel, received = consume(connection, "jobs", prefetch=4)
        drain(connection)
        received[1].ack()
        channel.close()

        _, again = consume(connection, "jobs", prefetch=10)
        drain(connection)

        assert [message.payload for message in again] == [0, 2, 3, 4, 5]
        assert "x-delivery-count" not in again[0].headers


def test_a_requeued_message_says_that_it_is_redelivered(server: RedisServer, client: redis.Redis) -> None:
    with connect(server) as connection:
        publish(connection, "jobs", {"order": 1}, headers={"eta": None, "rate": 1.0, "tags": []})
        _, received = consume(connection, "jobs")
        drain(connection)
        assert not received[0].delivery_info.get("redelivered")

        received[0].requeue()
        drain(connection)

        again = received[1]
        assert again.payload == {"order": 1}
        assert again.delivery_info["redelivered"] is True
        assert again.headers == {"eta": None, "rate": 1.0, "tags": [], "redelivered": True}


def test_basic_get_keeps_an_expiring_queue(server: RedisServer, client: redis.Redis) -> None:
    with connect(server) as connection:
        channel = connection.channel()
        queue = kombu.Queue("replies", expires=60)(channel)
        queue.declare()
        publish(connection, "replies", 1, 2)
        list_key = next(key for key in client.keys("replies*") if client.type(key) == b"list")
        client.pexpire(list_key, 1000)

        assert queue.get(no_ack=True).payload == 1

        assert client.pttl(list_key) > 50_000


def test_copies_of_a_topic_exchange_are_settled_each_on_its_own(
    server: RedisServer, client: redis.Redis
) -> None:
    with connect(server) as connection:
        exchange = kombu.Exchange("events", type="topic")
        channel = connection.channel()
        queues = [kombu.Queue(name, exchange, "user.#")(channel) for name in ("mail", "audit")]
        for queue in queues:
            queue.declare()
        kombu.Producer(channel, exchange).publish("signed up", routing_key="user.new")
        received: list[Any] = []
        kombu.Consumer(channel, queues, on_message=received.append, accept=["json"]).consume()
        drain(connection)
        assert len(received) == 2

        received[0].ack()
        received[1].reject(requeue=True)
        drain(connection)

        assert len(received) == 3
        received[2].ack()
        assert leased(client) == 0
        assert client.llen("mail") == client.llen("audit") == 0


def test_consumer_without_acknowledgements_leases_nothing(server: RedisServer, client: redis.Redis) -> None:
    with connect(server) as connection:
        publish(connection, "replies", 1)
        _, received = consume(connection, "replies", no_ack=True)

        drain(connection)

        assert [message.payload for message in received] == [1]
        assert client.zcard(KEYS.leases) == 0


def test_basic_get_leases_and_acknowledges_at_once(server: RedisServer, client: redis.Redis) -> None:
    with connect(server) as connection:
        publish(connection, "jobs", 1, 2)
        channel = connection.channel()

        first = channel.basic_get("jobs")
        second = channel.basic_get("jobs", no_ack=True)

        assert (first.payload, second.payload, leased(client)) == (1, 2, 1)
        first.ack()
        assert leased(client) == 0
        assert channel.basic_get("jobs") is None


@pytest.fixture
def no_store() -> Iterator[None]:
    """Without a dead letter store; Django, which the tests set up, has registered one."""
    before = list(undecodable._sinks)
    undecodable.set_undecodable_sink(None)
    yield
    undecodable._sinks[:] = before


@pytest.mark.usefixtures("no_store")
def test_undecodable_message_is_set_aside_and_the_next_one_delivered(
    server: RedisServer, client: redis.Redis
) -> None:
    with connect(server) as connection:
        client.lpush("jobs", b"\xff not json")
        publish(connection, "jobs", 2)
        _, received = consume(connection, "jobs")

        drain(connection)

        assert [message.payload for message in received] == [2]
        assert client.lrange("jobs.undecodable", 0, -1) == [b"\xff not json"]
        assert leased(client) == 1


def test_global_key_prefix_is_on_every_key(server: RedisServer, client: redis.Redis) -> None:
    with connect(server, global_keyprefix="app:") as connection:
        publish(connection, "jobs", 1)
        publish(connection, "jobs", 2, headers={"eta": "2999-01-01T00:00:00+00:00"})
        channel, received = consume(connection, "jobs")
        drain(connection)

        assert [message.payload for message in received] == [1]
        assert all(key.startswith(b"app:") for key in client.keys("*"))
        channel.close()
        assert client.llen("app:jobs") == 1
        assert client.zcard("app:taskyard:delayed:jobs") == 1


def test_script_flush_is_survived(server: RedisServer, client: redis.Redis) -> None:
    with connect(server) as connection:
        publish(connection, "jobs", 1, 2)
        _, received = consume(connection, "jobs", prefetch=1)
        drain(connection)
        client.script_flush()

        received[0].ack()
        drain(connection, seconds=1.5)

        assert [message.payload for message in received] == [1, 2]
        assert leased(client) == 1


def test_full_broker_is_drained(server: RedisServer, client: redis.Redis) -> None:
    """At its memory limit a server refuses writes that need memory; fetching must go on, or it stays full."""
    with connect(server) as connection:
        publish(connection, "jobs", *range(5))
        _, received = consume(connection, "jobs")
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", "1")
        try:
            with pytest.raises(redis.ResponseError, match="maxmemory"):
                client.lpush("other", 1)
            drain(connection)
            for message in received:
                message.ack()
            drain(connection)
        finally:
            client.config_set("maxmemory", "0")

        assert len(received) == 5
        assert leased(client) == 0


def test_weighted_order_starves_no_queue(server: RedisServer, client: redis.Redis) -> None:
    weights = {"critical": 50, "high": 25, "default": 15, "low": 8, "bulk": 2}
    with connect(server, queue_order="weighted", queue_weights=weights) as connection:
        for queue in weights:
            publish(connection, queue, *([queue] * 120))
        _, received = consume(connection, *weights, prefetch=1)
        taken: list[str] = []

        def turn() -> bool:
            drain(connection, seconds=0.01)
            while received:
                message = received.pop()
                taken.append(message.payload)
                message.ack()
            return len(taken) >= 100

        wait_until(turn, timeout_seconds=30, what="a hundred messages were taken")

        counts = {queue: taken[:100].count(queue) for queue in weights}
        assert all(abs(counts[queue] - weight) <= 2 for queue, weight in weights.items()), counts


def test_cluster_is_refused() -> None:
    cluster = RedisServer(options=("--cluster-enabled", "yes", "--cluster-port", str(free_port()))).start()
    try:
        with pytest.raises(
            ConfigurationError, match="Redis Cluster: the keys of a queue would lie on different nodes"
        ):
            connect(cluster).connect()
    finally:
        cluster.stop()


def test_batch_publish_takes_delayed_messages_too(server: RedisServer, client: redis.Redis) -> None:
    with connect(server) as connection:
        producer = kombu.Producer(connection)

        with producer.batch(100):
            for number in range(100):
                eta = {"eta": "2999-01-01T00:00:00+00:00"} if number % 2 else {}
                producer.publish(number, exchange="", routing_key="jobs", headers=eta)

        assert client.llen("jobs") == 50
        assert client.zcard("taskyard:delayed:jobs") == 50


def test_stock_consumer_reads_what_we_publish(server: RedisServer, client: redis.Redis) -> None:
    with connect(server) as ours, kombu.Connection(server.url) as stock:
        publish(ours, "jobs", {"a": 1})

        message = stock.channel().basic_get("jobs")

        assert message.payload == {"a": 1}
        message.ack()


def test_answer_that_never_arrived_is_delivered_after_the_reconnect(
    server: RedisServer, client: redis.Redis
) -> None:
    """The broker leased messages to us, and the connection was cut before the answer came."""
    with connect(server) as connection:
        channel, received = consume(connection, "jobs", prefetch=2)
        drain(connection, seconds=0.05)
        publish(connection, "jobs", 1, 2, 3)
        channel.fetcher.wake()
        channel._brpop_start()
        assert channel.fetcher.in_flight
        wait_until(lambda: leased(client) == 2, timeout_seconds=5, what="the broker has leased them")

        channel.client.connection.disconnect()
        drain(connection)

        assert [message.payload for message in received] == [1, 2]
        received[0].ack()
        drain(connection)
        assert [message.payload for message in received] == [1, 2, 3]


def test_late_request_of_an_old_connection_does_nothing(server: RedisServer, client: redis.Redis) -> None:
    with connect(server) as connection:
        publish(connection, "jobs", 1, 2, 3)
        channel, received = consume(connection, "jobs", prefetch=1)
        drain(connection)
        channel.fetcher._wanted = 1
        arguments = channel.fetcher._request(channel.lease)
        channel.client.connection.disconnect()
        drain(connection)

        answer = script("fetch").run(client, [], arguments)

        assert answer == -1
        assert client.llen("jobs") == 2
        assert len(received) == 1


def test_publish_whose_answer_was_lost_is_stored_once(server: RedisServer, client: redis.Redis) -> None:
    with connect(server) as connection:
        later = {"eta": "2999-01-01T00:00:00+00:00"}
        for _ in range(2):
            publish(connection, "jobs", 1, priority=5, headers={"id": "a", "published_at": 1.5})
            publish(connection, "jobs", 2, headers={"id": "b", "published_at": 1.5, **later})
        # a retry of the task is another publish, and so is another queue
        publish(connection, "jobs", 3, priority=5, headers={"id": "a", "published_at": 2.5})
        publish(connection, "other", 4, priority=5, headers={"id": "a", "published_at": 1.5})

        assert client.llen("jobs") == 2
        assert client.llen("other") == 1
        assert client.zcard("taskyard:delayed:jobs") == 1
        assert all(0 < client.pttl(key) <= 60_000 for key in client.keys("taskyard:published:*"))
