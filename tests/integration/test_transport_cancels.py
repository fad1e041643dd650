"""Cancelled tasks on the broker: heard of with the messages, told while waiting, found, brought forward."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis

from taskyard.transport import cancels, search
from taskyard.transport.cancels import CancelledTasks, CancelNote, HolderAnswer
from taskyard.transport.keys import LeaseKeys
from tests.support.leased_kombu import connect, consume, drain, publish
from tests.support.redis_server import RedisServer
from tests.support.valkey_server import EmbeddedValkey

pytestmark = pytest.mark.integration
KEYS = LeaseKeys()
NOTE = CancelNote(by="ops", reason="wrong file", at="2030-01-01T00:00:00+00:00")
WEEK = 7 * 24 * 3600.0


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


def cancel(client: redis.Redis, task_id: str, note: CancelNote = NOTE) -> CancelNote | None:
    return cancels.cancel(client, task_id, note, hold_seconds=WEEK)


def test_the_first_note_stands(client: redis.Redis) -> None:
    assert cancel(client, "a") is None
    assert cancel(client, "a", CancelNote(by="somebody else")) == NOTE
    assert cancels.note_of(client, "a") == NOTE
    assert cancels.note_of(client, "b") is None


def test_versions_rise_even_if_the_clock_of_the_server_was_ahead(client: redis.Redis) -> None:
    ahead = 9_000_000_000_000_000
    client.set(KEYS.cancel_version, ahead)

    cancel(client, "a")

    assert int(client.get(KEYS.cancel_version)) == ahead + 1
    assert client.zscore(KEYS.cancelled, "a") == ahead + 1


def test_what_is_old_is_forgotten(client: redis.Redis) -> None:
    client.zadd(KEYS.cancelled, {"old": 1})
    client.hset(KEYS.cancel_notes, "old", "{}")

    cancel(client, "new")

    assert client.zrange(KEYS.cancelled, 0, -1) == [b"new"]
    assert client.hkeys(KEYS.cancel_notes) == [b"new"]


def test_a_message_is_handed_on_after_its_cancellation_is_known(
    server: RedisServer, client: redis.Redis
) -> None:
    with connect(server) as connection:
        publish(connection, "jobs", 1, headers={"id": "a"})
        publish(connection, "jobs", 2, headers={"id": "b"})
        channel, received = consume(connection, "jobs", prefetch=1)
        drain(connection)
        known = []
        channel.connection._callbacks["jobs"] = lambda message: known.append("b" in channel.leases.cancelled)

        cancel(client, "b")
        received[0].ack()
        drain(connection)

        assert known == [True]
        assert "a" not in channel.leases.cancelled


@pytest.mark.parametrize("prefetch", [1, 10], ids=["full", "waiting"])
def test_a_consumer_is_told_at_once(server: RedisServer, client: redis.Redis, prefetch: int) -> None:
    """Also one that fetches nothing now, because it holds all that it may."""
    with connect(server, poll_interval=30.0, lease_ttl=300.0) as connection:
        publish(connection, "jobs", 1, headers={"id": "a"})
        channel, _ = consume(connection, "jobs", prefetch=prefetch)
        drain(connection)

        for task_id in ("a", "b"):  # told of the second one, too
            cancel(client, task_id)
            drain(connection)

            assert task_id in channel.leases.cancelled


def test_another_connection_reads_everything(server: RedisServer, client: redis.Redis) -> None:
    with connect(server) as connection:
        channel, _ = consume(connection, "jobs")
        drain(connection)
        cancel(client, "a")
        drain(connection)
        # another server has taken over, with cancellations of its own
        client.zadd(KEYS.cancelled, {"b": 5})
        client.incr(KEYS.cancel_version)

        channel.client.connection.disconnect()
        drain(connection)

        assert "b" in channel.leases.cancelled


class TestKnowledge:
    """Of a worker that has reserved something and not spoken with the broker for a while."""

    @pytest.fixture
    def known(self, client: redis.Redis) -> CancelledTasks:
        return CancelledTasks(KEYS, lambda: client)

    def test_stale_knowledge_is_refreshed_before_a_task_starts(
        self, known: CancelledTasks, client: redis.Redis
    ) -> None:
        cancel(client, "a")

        assert known.holds("a")
        assert not known.holds("b")

    def test_fresh_knowledge_costs_no_question(self, known: CancelledTasks, client: redis.Redis) -> None:
        known.holds("a")
        before = client.info("commandstats")["cmdstat_get"]["calls"]

        for _ in range(100):
            known.holds("a")

        assert client.info("commandstats")["cmdstat_get"]["calls"] == before

    def test_a_broker_that_is_away_holds_up_nothing(self) -> None:
        nowhere = redis.Redis(port=1, socket_timeout=0.5)
        asked = []
        known = CancelledTasks(KEYS, lambda: asked.append(1) or nowhere)

        assert [known.holds("a") for _ in range(10)] == [False] * 10
        assert len(asked) == 1

    def test_each_cancellation_is_told_once_and_a_repeated_one_again(
        self, known: CancelledTasks, client: redis.Redis
    ) -> None:
        told: list[bool] = []
        known.on_new = lambda _: told.append("a" in known)
        known.read(client.execute_command)
        cancel(client, "a")
        known.read(client.execute_command)
        known.read(client.execute_command)
        known.start_over()
        known.read(client.execute_command)
        assert told == [True]

        cancel(client, "a")
        known.read(client.execute_command)

        assert told == [True, True]

    def test_a_worker_that_fails_to_tell_what_runs_knows_all_the_same(
        self, known: CancelledTasks, client: redis.Redis
    ) -> None:
        def fail(_: Any) -> None:
            raise LookupError("planned")

        known.on_new = fail
        cancel(client, "a")

        known.read(client.execute_command)

        assert "a" in known

    def test_the_holder_s_answer_is_for_the_last_cancellation(
        self, known: CancelledTasks, client: redis.Redis
    ) -> None:
        cancel(client, "a")
        answer = HolderAnswer(worker="w1@host", is_running=True)

        known.answer(client.execute_command, [("a", answer)])

        assert cancels.answer_of(client, "a") == answer
        cancel(client, "a")
        assert cancels.answer_of(client, "a") is None


def place_of(client: redis.Redis, task_id: str) -> tuple[str, str] | None:
    place = search.find(client, ["jobs", "other"], task_id)
    return place and (place.queue, place.where)


def in_an_hour() -> str:
    return (datetime.now(UTC) + timedelta(hours=1)).isoformat()


def test_a_message_is_found_wherever_it_is(server: RedisServer, client: redis.Redis) -> None:
    with connect(server) as connection:
        publish(connection, "jobs", 0, headers={"id": "held"})
        channel, _ = consume(connection, "jobs", prefetch=1)
        drain(connection)
        publish(connection, "other", 1, headers={"id": "waiting"}, priority=9)
        publish(connection, "other", 2, headers={"id": "mentions", "parent_id": "parent"})
        publish(connection, "other", 3, headers={"id": "delayed", "eta": in_an_hour()})

        held = search.find(client, ["jobs"], "held")
        assert (held.queue, held.where, held.holder) == ("jobs", "held", channel.lease.id)
        assert place_of(client, "waiting") == ("other", "waiting")
        assert place_of(client, "delayed") == ("other", "delayed")
        assert place_of(client, "parent") is None
        assert place_of(client, "nowhere") is None


def test_a_full_queue_is_not_read_to_its_end(server: RedisServer, client: redis.Redis) -> None:
    with connect(server) as connection:
        publish(connection, "jobs", "old", headers={"id": "old"})
        publish(connection, "jobs", *range(20), headers={"id": "x"})

        assert search.find(client, ["jobs"], "old", look_at_most=20) is None
        assert search.find(client, ["jobs"], "old", look_at_most=21) is not None


def test_a_delayed_message_can_be_had_now(server: RedisServer, client: redis.Redis) -> None:
    with connect(server) as connection:
        publish(connection, "jobs", "body", headers={"id": "a", "eta": in_an_hour()}, priority=7)
        place = search.find(client, ["jobs"], "a")

        assert search.bring_forward(client, place)

        assert not search.bring_forward(client, place)
        _, received = consume(connection, "jobs")
        drain(connection)
        assert [(message.payload, message.properties["priority"]) for message in received] == [("body", 7)]
