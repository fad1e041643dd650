"""Pausing, resuming, looking at and purging queues; cleaning up after dead processes."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
from django.core.management import call_command

from taskyard.clock import SYSTEM_CLOCK
from taskyard.conf import build_settings
from taskyard.transport import janitor, queues
from taskyard.transport.keys import LeaseKeys
from tests.support.leased_kombu import connect, consume, drain, publish
from tests.support.redis_server import RedisServer
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


def test_paused_queue_is_not_fetched_and_resumes_at_once(server: RedisServer, client: redis.Redis) -> None:
    with connect(server, poll_interval=30) as connection:
        queues.pause(client, "jobs", who="ann", why="provider is down")
        publish(connection, "jobs", 1)
        publish(connection, "other", 2)
        _, received = consume(connection, "jobs", "other")
        drain(connection)
        assert [message.payload for message in received] == [2]
        assert queues.paused(client)["jobs"].who == "ann"

        assert queues.resume(client, "jobs")

        wait_until(
            lambda: drain(connection, seconds=0.02) or len(received) == 2,
            timeout_seconds=3,
            what="the resumed queue is fetched long before the next poll",
        )
        assert not queues.resume(client, "jobs")


def test_overview_counts_what_is_where(server: RedisServer, client: redis.Redis) -> None:
    minute_ago = SYSTEM_CLOCK.now().timestamp() - 60
    later = {"eta": (datetime.now(UTC) + timedelta(hours=1)).isoformat()}
    with connect(server) as connection:
        publish(connection, "jobs", 1, 2, 3, 4, headers={"published_at": minute_ago})
        publish(connection, "jobs", 5, headers=later)
        client.lpush("jobs.dead", b"x")
        _, received = consume(connection, "jobs", prefetch=1)
        drain(connection)
        assert len(received) == 1

        jobs, empty = queues.overview(client, ["jobs", "empty"])

        assert (jobs.waiting, jobs.delayed, jobs.leased, jobs.dead, jobs.consumers, jobs.fetched) == (
            3,
            1,
            1,
            1,
            1,
            1,
        )
        assert jobs.oldest_age_seconds == pytest.approx(60, abs=10)
        assert (empty.waiting, empty.oldest_age_seconds, empty.pause) == (0, 0.0, None)
        assert queues.purge(client, "jobs") == 4


def test_due_messages_are_promoted_without_a_worker(server: RedisServer, client: redis.Redis) -> None:
    client.zadd("taskyard:delayed:jobs", {b"5\na": 1, b"9\nb": 2, b"0\nc": 9e15})

    assert queues.promote_due(client, "jobs") == 2

    assert client.lrange("jobs", 0, -1) == [b"a"]
    assert client.lrange("jobs\x06\x161", 0, -1) == [b"b"]


def run_command(server: RedisServer, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    from taskyard.operations.management.commands import queues as command

    monkeypatch.setattr(command, "get_settings", lambda: build_settings({"BROKER_URL": server.url}))
    output = io.StringIO()
    call_command("queues", *arguments, "--json", stdout=output)
    return json.loads(output.getvalue())


def test_command_lists_pauses_resumes_and_purges(
    server: RedisServer, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(server) as connection:
        publish(connection, "bulk", *range(3))
    run_command(server, monkeypatch, "pause", "bulk", "--why", "import runs amok", "--who", "ann")

    listed = {row["name"]: row for row in run_command(server, monkeypatch, "list", "--rate-seconds", "0.01")}
    assert list(listed) == ["critical", "high", "default", "low", "bulk"]
    assert listed["bulk"]["waiting"] == 3
    assert listed["bulk"]["pause"]["why"] == "import runs amok"
    assert listed["bulk"]["rate"] == 0
    assert run_command(server, monkeypatch, "resume", "bulk") == {"queue": "bulk", "was_paused": True}
    assert run_command(server, monkeypatch, "purge", "bulk", "--yes") == {"queue": "bulk", "purged": 3}


def test_leftovers_are_listed_and_messages_given_back(server: RedisServer, client: redis.Redis) -> None:
    with connect(server) as connection:
        publish(connection, "jobs", 1)
        raw = client.rpop("jobs")
        client.hset(KEYS.messages("gone:1"), "1", b"jobs\n" + raw)
        client.hset(KEYS.holders, "gone:2", "{}")
        client.lpush("x.reply.celery.pidbox", b"{}")

        found = janitor.find(client, reply_idle_seconds=0)
        assert {(item.kind, item.key) for item in found} == {
            ("messages without a lease", "gone:1"),
            ("holder without a lease", "gone:2"),
            ("unread replies", "x.reply.celery.pidbox"),
        }
        janitor.remove(client, found)

        _, received = consume(connection, "jobs")
        wait_until(
            lambda: drain(connection, seconds=0.1) or received, timeout_seconds=25, what="it came back"
        )
        assert [message.payload for message in received] == [1]
        assert janitor.find(client) == []
