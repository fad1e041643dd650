"""Waiting workers: a message wakes a handful, a flood wakes all, and none has to wait for a poll."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from taskyard.clock import SYSTEM_CLOCK
from taskyard.transport.process_leases import WATCHERS
from tests.support.leased_kombu import connect, consume, drain, publish
from tests.support.redis_server import RedisServer
from tests.support.valkey_server import EmbeddedValkey
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
WORKERS = 10


@pytest.fixture(params=[RedisServer, EmbeddedValkey])
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    server = request.param().start()
    yield server
    server.stop()


def calls(client) -> int:
    return client.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0)


def test_few_watch_and_wake_the_others_as_needed(server: RedisServer) -> None:
    client = server.client()
    with ExitStack() as stack:
        # polls so rare that only a wake-up can explain what arrives
        connections = [stack.enter_context(connect(server, poll_interval=60)) for _ in range(WORKERS)]
        inboxes = [consume(connection, "jobs", prefetch=1)[1] for connection in connections]

        def turn() -> None:
            for connection in connections:
                drain(connection, seconds=0.01)

        for _ in range(3):
            turn()
        (watching,), (parked,) = client.keys("taskyard:watching:*"), client.keys("taskyard:parked:*")
        assert (client.zcard(watching), client.llen(parked)) == (WATCHERS, WORKERS - WATCHERS)

        before = calls(client)
        publish(connections[0], "jobs", 0)
        for _ in range(4):
            turn()
        assert sum(map(len, inboxes)) == 1
        assert calls(client) - before < 2 * WORKERS, "one message has woken the whole fleet"

        publish(connections[0], "jobs", *range(1, WORKERS))
        wait_until(
            lambda: turn() or sum(map(len, inboxes)) == WORKERS,
            timeout_seconds=20,
            what="each worker got a message",
        )
        assert {len(inbox) for inbox in inboxes} == {1}


def test_idle_worker_starts_at_once(server: RedisServer) -> None:
    with connect(server, poll_interval=60) as connection:
        _, received = consume(connection, "jobs")
        drain(connection, seconds=0.1)
        waits = []
        for number in range(30):
            sent = SYSTEM_CLOCK.monotonic()
            publish(connection, "jobs", number)
            wait_until(
                lambda count=number + 1: drain(connection, seconds=0.001) or len(received) >= count,
                timeout_seconds=5,
                what="the message arrived",
            )
            waits.append(SYSTEM_CLOCK.monotonic() - sent)
            received[-1].ack()
            drain(connection, seconds=0.02)

        # Generous for a busy machine; without a wake-up it would be a minute.
        assert sorted(waits)[15] < 0.5
