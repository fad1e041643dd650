"""Orders are charged while workers are killed: each one once, also where it is published twice."""

from __future__ import annotations

import time

import pytest

from tests.support.charges import Charges
from tests.support.nursery import Nursery
from tests.support.servers import RedisServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]
ORDERS = 2000
# Every so many orders are published a second time, right behind the first: as by a double click.
TWICE_EVERY = 5
WORKERS = 3
PROCESSES = 2
KILL_SECONDS = 1.0
LEAST_KILLS = 10
# On a busy machine workers have hardly begun when they are killed; then the rest is charged in peace.
STORM_SECONDS = 30.0


@pytest.fixture
def redis_server(tmp_path):
    server = RedisServer(tmp_path / "broker", {"appendfsync": "everysec"})
    server.start()
    yield server
    server.discard()


@pytest.fixture
def charges(tmp_path, redis_server, postgres, postgres_database):
    charges = Charges(tmp_path, redis_server, postgres, postgres_database)
    yield charges
    charges.close()


@pytest.fixture
def nursery(charges, tmp_path):
    nursery = Nursery(charges.environment, tmp_path)
    yield nursery
    nursery.discard()


class Storm:
    """Workers, of which one is killed every second for as long as messages wait."""

    def __init__(self, nursery, charges):
        self.nursery = nursery
        self.charges = charges
        self.kills = 0
        self.killed_processes = 0
        self.workers = [self._start() for _ in range(WORKERS)]

    def rage(self):
        wait_until(self._ready, timeout_seconds=60, what="the first workers are ready")
        ends_at = time.monotonic() + STORM_SECONDS
        while self.charges.waiting() and time.monotonic() < ends_at:
            began = time.monotonic()
            victim = wait_until(self._ready, timeout_seconds=60, what="a worker is at work")
            self.workers.remove(victim)
            self.killed_processes += len(victim.kill())
            self.kills += 1
            self.workers.append(self._start())
            wait_until(
                lambda began=began: time.monotonic() - began >= KILL_SECONDS or not self.charges.waiting(),
                timeout_seconds=KILL_SECONDS + 5,
                what="a second has passed",
            )

    def _start(self):
        return self.nursery.start_worker("--queue=critical", f"--processes={PROCESSES}")

    def _ready(self):
        """Return the oldest worker that is at work, if another one is, too."""
        ready = [worker for worker in self.workers if worker.is_ready]
        return ready[0] if len(ready) > 1 else None


def test_each_order_is_charged_once_while_workers_are_killed_every_second(charges, nursery):
    orders = charges.place(ORDERS)
    charges.publish(order for n, order in enumerate(orders) for _ in range(2 if n % TWICE_EVERY == 0 else 1))
    storm = Storm(nursery, charges)

    storm.rage()
    wait_until(charges.is_idle, timeout_seconds=90, what="nothing is left", pause_seconds=0.2)

    assert storm.kills >= LEAST_KILLS, "too few kills: the run proves too little"
    paid = charges.query("SELECT count(*), count(DISTINCT order_id) FROM orders_payment")
    assert paid == [(ORDERS, ORDERS)]
    assert charges.count("orders_order WHERE state = 'paid'") == ORDERS
    assert charges.query("SELECT sum(orders) FROM orders_dailysales") == [(ORDERS,)]
    books = charges.books()
    assert set(books.questions) == {f"order-{order}" for order in orders}
    # the provider is asked again only where a run was killed, never by two runs at once
    assert ORDERS <= books.asked <= ORDERS + storm.killed_processes
    assert charges.count("deadletters_deadletter") == 0
    done = charges.app.state_store.find("idempotent:orders.charge_order:", limit=2 * ORDERS)
    assert [claim.state for claim in done] == ["done"] * ORDERS
