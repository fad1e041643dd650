"""How long a critical task waits while bulk has a long queue, each served by a worker of its own."""

from __future__ import annotations

import time
from pathlib import Path

from tests.bench.inventory import count_waiting
from tests.bench.prefill import prefill
from tests.bench.probe.record import STARTS_KEY
from tests.bench.processes import Child, forget
from tests.bench.publisher import read_ledger
from tests.bench.servers import Aof, BrokerKind, RedisServer
from tests.bench.summary import percentile
from tests.bench.variants import Variant

URGENT_TASKS = 300
URGENT_RATE = 20.0
# The first ones meet a pool and connections that are still being made.
WARM_UP = 20
BULK_SECONDS = 0.005
TIMEOUT_SECONDS = 120.0


def measure_urgency(
    variant: Variant, backlog: int, directory: Path, *, broker_kind: BrokerKind, aof: Aof
) -> dict[str, float]:
    """Return the wait of critical tasks in milliseconds, from before the publish to the start of the run.

    Raises:
        RuntimeError: the tasks did not run, or the backlog was empty before the end.
    """
    broker = RedisServer(directory / "broker", kind=broker_kind, aof=aof).start()
    effects = RedisServer(directory / "effects").start()
    system = variant.at(broker, effects, directory)
    system.prepare()
    prefill(system, broker, "bulk", "bulk", backlog, seconds=BULK_SECONDS)
    workers = [
        system.start_worker(queue, variant.plan("prefork", queue), env=variant.env)
        for queue in ("bulk", "critical")
    ]
    ledger = directory / "urgent.ledger"
    try:
        _wait_until_busy(broker, backlog, workers)
        numbers = (str(URGENT_TASKS), "0", str(URGENT_RATE), "0")
        publisher = system.start_python("urgent", "tests.bench.publisher", str(ledger), "urgent", *numbers)
        workers.append(publisher)
        started = _wait_for_starts(effects)
        _require_backlog(broker)
    finally:
        for child in workers:
            child.kill()
            forget(child)
        broker.kill()
        effects.kill()
    sent = {number: p.begin for p in read_ledger(ledger) for number in p.numbers}
    waits = [(started[n] - sent[n]) * 1000 for n in range(WARM_UP, URGENT_TASKS)]
    return {
        "wait p50 ms": percentile(waits, 50),
        "wait p99 ms": percentile(waits, 99),
        "wait max ms": max(waits),
    }


def _wait_until_busy(broker: RedisServer, backlog: int, workers: list[Child]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    with broker.client() as client:
        while count_waiting(client, "bulk") > backlog - 100:
            if time.monotonic() > deadline or any(worker.poll() is not None for worker in workers):
                raise RuntimeError("The bulk worker does not work; see its log.")
            time.sleep(0.05)


def _wait_for_starts(effects: RedisServer) -> dict[int, float]:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    with effects.client() as client:
        while client.llen(STARTS_KEY) < URGENT_TASKS:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{client.llen(STARTS_KEY)} of {URGENT_TASKS} critical tasks ran.")
            time.sleep(0.1)
        lines = [line.split() for line in client.lrange(STARTS_KEY, 0, -1)]
    return {int(number): float(at) for number, at, _, _ in reversed(lines)}


def _require_backlog(broker: RedisServer) -> None:
    with broker.client() as client:
        if not count_waiting(client, "bulk"):
            raise RuntimeError("The backlog was empty before the end: the wait was not measured under it.")
