"""Connections are cut and the broker dies, while tasks run.

None runs twice, no worker exits, nothing is lost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tests.support.leased_kombu import leased
from tests.support.leased_worker import Effects, Worker, leased_app, publish
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]
PAUSE = threading.Event()


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_cut_connections_run_nothing_twice(
    durable_broker: RedisServer, effects: Effects, start_worker: Callable[..., Worker], pool: str
) -> None:
    publish(leased_app(durable_broker.url), range(150), seconds=0.05)
    workers = [start_worker(durable_broker, pool=pool) for _ in range(2)]
    client = durable_broker.client()
    for worker in workers:
        worker.wait_ready()
    for _ in range(12):
        client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        PAUSE.wait(0.4)

    wait_until(
        lambda: len(effects.counts()) == 150, timeout_seconds=90, what=f"all ran: {workers[0].text()[-3000:]}"
    )
    wait_until(lambda: leased(client) == 0, timeout_seconds=20, what="all are acknowledged")

    twice = {number: count for number, count in effects.counts("start").items() if count > 1}
    assert not twice, [line for line in effects.lines("start") if int(line[1]) in twice]
    assert [worker.process.poll() for worker in workers] == [None, None]


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_broker_that_dies_and_restarts_runs_nothing_twice(
    durable_broker: RedisServer, effects: Effects, start_worker: Callable[..., Worker], pool: str
) -> None:
    publish(leased_app(durable_broker.url), range(200), seconds=0.05)
    workers = [start_worker(durable_broker, pool=pool) for _ in range(2)]
    for worker in workers:
        worker.wait_ready()
    for _ in range(4):
        PAUSE.wait(1.0)
        durable_broker.kill()
        durable_broker.start()

    wait_until(
        lambda: len(effects.counts()) == 200, timeout_seconds=90, what=f"all ran: {workers[0].text()[-3000:]}"
    )
    client = durable_broker.client()
    wait_until(lambda: leased(client) == 0, timeout_seconds=20, what="all are acknowledged")

    twice = {number: count for number, count in effects.counts("start").items() if count > 1}
    assert not twice, [line for line in effects.lines("start") if int(line[1]) in twice]
    assert [worker.process.poll() for worker in workers] == [None, None]
