"""Stock Kombu and leased workers and producers on the same queue: a fleet changes over while it runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from celery import Celery

from tests.support.leased_kombu import leased
from tests.support.leased_worker import Effects, Worker, leased_app, publish
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]


def test_nothing_is_lost_or_doubled(
    durable_broker: RedisServer, effects: Effects, start_worker: Callable[..., Worker]
) -> None:
    stock_app, our_app = (
        Celery("stock", broker=durable_broker.url, set_as_current=False),
        leased_app(durable_broker.url),
    )
    for app, numbers in ((stock_app, range(150)), (our_app, range(150, 300))):
        publish(app, numbers, seconds=0.02)
    publish(stock_app, range(300, 310), countdown=4)
    publish(our_app, range(310, 320), countdown=4)
    workers = [start_worker(durable_broker, transport=transport) for transport in ("leased", "stock")]

    wait_until(lambda: len(effects.counts()) == 320, timeout_seconds=90, what="all have run")
    client = durable_broker.client()
    wait_until(
        lambda: leased(client) == 0 and client.hlen("unacked") == 0,
        timeout_seconds=20,
        what="all are acknowledged",
    )

    assert set(effects.counts("start").values()) == {1}
    processes = {line[2] for line in effects.lines("start")}
    assert len(processes) == 4, "both workers took part, with two processes each"
    assert client.llen("celery") == client.zcard("taskyard:delayed:celery") == 0
    assert [worker.process.poll() for worker in workers] == [None, None]


def test_what_a_dead_stock_worker_left_is_recovered(
    durable_broker: RedisServer, effects: Effects, start_worker: Callable[..., Worker]
) -> None:
    publish(Celery("stock", broker=durable_broker.url, set_as_current=False), range(4), seconds=3)
    stock = start_worker(durable_broker, transport="stock", prefetch=2)
    client = durable_broker.client()
    wait_until(lambda: client.hlen("unacked") == 4, timeout_seconds=60, what="the stock worker holds all")
    stock.kill()

    start_worker(durable_broker, options={"visibility_timeout": 2, "unacked_restore_interval": 1})

    wait_until(lambda: len(effects.counts()) == 4, timeout_seconds=60, what="the leased worker ran them")
    wait_until(
        lambda: client.hlen("unacked") == 0, timeout_seconds=10, what="nothing is left of the stock worker"
    )


def test_remote_control_reaches_a_leased_worker_from_either_side(
    durable_broker: RedisServer, effects: Effects, start_worker: Callable[..., Worker]
) -> None:
    publish(leased_app(durable_broker.url), range(1), seconds=60)
    start_worker(durable_broker, name="one").wait_ready()
    wait_until(lambda: effects.order() == [0], timeout_seconds=30, what="the task runs")

    for app in (
        Celery("stock", broker=durable_broker.url, set_as_current=False),
        leased_app(durable_broker.url),
    ):
        assert app.control.ping(timeout=3) == [{"one@test": {"ok": "pong"}}]
        active = app.control.inspect(timeout=3).active()
        assert [task["name"] for task in active["one@test"]] == ["test.run"]
        assert app.control.inspect(timeout=3).active_queues()["one@test"][0]["name"] == "celery"
