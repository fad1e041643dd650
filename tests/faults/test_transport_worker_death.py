"""A worker dies: its messages come back in time, in order, counted; and not for ever."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from tests.support.leased_kombu import connect, consume, drain, leased
from tests.support.leased_worker import LEASE_TTL, Effects, Worker, leased_app, publish
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]


def test_killed_worker_loses_nothing(
    durable_broker: RedisServer, effects: Effects, start_worker: Callable[..., Worker]
) -> None:
    publish(leased_app(durable_broker.url), range(400))
    victims = [start_worker(durable_broker) for _ in range(2)]
    for round_number in range(3):
        wait_until(
            lambda least=100 * round_number: len(effects.counts()) > least,
            timeout_seconds=60,
            what="some tasks have run",
        )
        victims[round_number % 2].kill()
        victims[round_number % 2] = start_worker(durable_broker)

    wait_until(
        lambda: len(effects.counts()) == 400,
        timeout_seconds=60,
        what=f"all tasks have run, {len(effects.counts())} have",
    )

    client = durable_broker.client()
    wait_until(lambda: leased(client) == 0, timeout_seconds=20, what="nothing is leased any more")
    assert client.llen("celery") == 0


def test_messages_of_a_dead_worker_come_back_in_time_in_order_and_counted(
    durable_broker: RedisServer, effects: Effects, start_worker: Callable[..., Worker]
) -> None:
    publish(leased_app(durable_broker.url), range(8), seconds=60)
    worker = start_worker(durable_broker, pool="solo", concurrency=1, prefetch=6)
    wait_until(lambda: effects.order() == [0], timeout_seconds=60, what="the first task runs")
    client = durable_broker.client()
    assert leased(client) == 6

    worker.kill()
    died = time.monotonic()
    with connect(durable_broker, lease_ttl=LEASE_TTL) as connection:
        _, received = consume(connection, "other", "celery", prefetch=10)
        wait_until(
            lambda: drain(connection, seconds=0.1) or len(received) == 8,
            timeout_seconds=LEASE_TTL + 5,
            what="the messages came back within the lease and five seconds",
        )
        took = time.monotonic() - died

        # 6 and 7 were waiting, and were received at once
        returned = [message for message in received if message.headers.get("x-delivery-count")]
        assert [message.payload[0][0] for message in returned] == [0, 1, 2, 3, 4, 5]
        assert {message.headers["x-delivery-count"] for message in returned} == {1}
        assert took < LEASE_TTL + 5


def test_task_that_kills_its_worker_ends_in_the_dead_list(
    durable_broker: RedisServer, effects: Effects, start_worker: Callable[..., Worker]
) -> None:
    app = leased_app(durable_broker.url)
    app.send_task("test.kill_worker", (7,))
    client = durable_broker.client()
    options = {"max_deliveries": 2}
    for _ in range(2):
        worker = start_worker(durable_broker, pool="solo", options=options)
        wait_until(
            lambda worker=worker: worker.process.poll() is not None,
            timeout_seconds=60,
            what="the task killed it",
        )

    start_worker(durable_broker, pool="solo", options=options).wait_ready()
    wait_until(lambda: client.llen("celery.dead") == 1, timeout_seconds=30, what="it is in the dead list")

    assert effects.counts("start") == {7: 2}
    assert b'"x-delivery-count": 2' in client.lindex("celery.dead", 0)


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_stopped_worker_gives_back_at_once_what_it_has_not_begun(
    durable_broker: RedisServer, effects: Effects, start_worker: Callable[..., Worker], pool: str
) -> None:
    publish(leased_app(durable_broker.url), range(10), seconds=2)
    worker = start_worker(durable_broker, pool=pool, concurrency=1, prefetch=5)
    wait_until(lambda: effects.order() == [0], timeout_seconds=60, what="the first task runs")

    worker.terminate()
    worker.process.wait(40)

    done = effects.counts()
    client = durable_broker.client()
    waiting = client.llen("celery")
    assert leased(client) == 0
    assert len(done) + waiting == 10
    assert done[0] == 1
    assert client.zcard("taskyard:leases") == 0


def test_solo_task_keeps_its_lease(
    durable_broker: RedisServer, effects: Effects, start_worker: Callable[..., Worker]
) -> None:
    """The event loop stands still for longer than a lease.

    The task is nevertheless not given to the other worker.
    """
    publish(leased_app(durable_broker.url), range(1), seconds=LEASE_TTL * 3)
    for _ in range(2):
        start_worker(durable_broker, pool="solo")

    wait_until(lambda: effects.counts() == {0: 1}, timeout_seconds=60, what="the task has run")

    assert effects.counts("start") == {0: 1}


def test_frozen_worker_learns_that_it_has_lost_its_lease(
    durable_broker: RedisServer, effects: Effects, start_worker: Callable[..., Worker]
) -> None:
    """It thaws and acknowledges; the message stays with its new holder, and comes back when that one dies."""
    publish(leased_app(durable_broker.url), range(1), seconds=6)
    frozen = start_worker(durable_broker, concurrency=1)
    wait_until(lambda: effects.order() == [0], timeout_seconds=60, what="the task runs")
    frozen.signal_group(signal.SIGSTOP)
    second = start_worker(durable_broker, concurrency=1)
    wait_until(
        lambda: len(effects.order()) == 2, timeout_seconds=60, what="the task runs on the second worker"
    )

    frozen.signal_group(signal.SIGCONT)
    wait_until(
        lambda: "The lease on 1 messages has ended" in frozen.text(),
        timeout_seconds=30,
        what="it has learned",
    )

    client = durable_broker.client()
    if effects.counts() == {0: 1}:
        assert leased(client) == 1, "the acknowledgement has removed the new holder's message"
        second.kill()
        wait_until(
            lambda: len(effects.order()) == 3, timeout_seconds=30, what="it ran again after the second died"
        )
    assert effects.counts("start")[0] >= 2


def test_worker_whose_loop_hangs_loses_its_lease(
    durable_broker: RedisServer, effects: Effects, start_worker: Callable[..., Worker]
) -> None:
    """The process lives and its thread too, but nothing would ever be acknowledged."""
    app = leased_app(durable_broker.url)
    publish(app, range(1), seconds=40)
    options = {"lease_hang_seconds": 4}
    start_worker(durable_broker, name="one", concurrency=1, options=options).wait_ready()
    wait_until(lambda: len(effects.order()) == 1, timeout_seconds=60, what="the task runs")
    start_worker(durable_broker, name="two", concurrency=1, options=options).wait_ready()

    app.control.broadcast("hang", arguments={"seconds": 35}, destination=["one@test"])
    hung = time.monotonic()
    wait_until(
        lambda: len(effects.order()) == 2, timeout_seconds=30, what="the task runs on the other worker"
    )

    assert 4 < time.monotonic() - hung < 4 + LEASE_TTL + 5 + 5
