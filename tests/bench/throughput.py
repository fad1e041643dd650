"""Tasks a second, and what each costs: a queue of tasks that do nothing is emptied by one worker.

Measured between 90 % and 10 % of the queue left, so that the start and the end of the worker do not count.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import redis

from tests.bench.inventory import count_waiting
from tests.bench.prefill import prefill
from tests.bench.processes import Child, forget
from tests.bench.servers import Aof, BrokerKind, RedisServer
from tests.bench.systems import Pool
from tests.bench.variants import Variant

QUEUE = "default"
TIMEOUT_SECONDS = 180.0
LOOK_SECONDS = 0.02
# Commands of this module's own, which are not the system's.
OWN_COMMANDS = ("cmdstat_info", "cmdstat_llen", "cmdstat_ping")
MICROSECONDS = 1e6


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Counters at one moment; CPU in seconds."""

    at: float
    left: int
    main_cpu: float
    children_cpu: float
    redis_cpu: float
    commands: int
    reads: int


def measure_throughput(
    variant: Variant, pool: Pool, tasks: int, directory: Path, *, broker_kind: BrokerKind, aof: Aof
) -> dict[str, float]:
    """Return tasks a second, microseconds of CPU a task, and Redis commands and reads a task.

    Raises:
        RuntimeError: the queue was not emptied in time.
    """
    broker = RedisServer(directory / "broker", kind=broker_kind, aof=aof).start()
    system = variant.at(broker, broker, directory)
    system.prepare()
    prefill(system, broker, "noop", QUEUE, tasks)
    worker = system.start_worker("bench", variant.plan(pool), env=variant.env)
    try:
        with broker.client() as client:
            begin = _wait_for(client, worker, broker, int(tasks * 0.9), log=directory)
            end = _wait_for(client, worker, broker, int(tasks * 0.1), log=directory)
    finally:
        worker.kill()
        forget(worker)
        broker.kill()
    return _per_task(begin, end)


def _wait_for(client: redis.Redis, worker: Child, broker: RedisServer, left: int, *, log: Path) -> Snapshot:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while (waiting := count_waiting(client, QUEUE)) > left:
        if worker.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(
                f"The worker did not empty the queue: {waiting} tasks are left; see {log}/bench.log."
            )
        time.sleep(LOOK_SECONDS)
    return _snapshot(client, worker, broker)


def _snapshot(client: redis.Redis, worker: Child, broker: RedisServer) -> Snapshot:
    main = psutil.Process(worker.pid)
    statistics = client.info("commandstats")
    return Snapshot(
        at=time.monotonic(),
        left=count_waiting(client, QUEUE),
        main_cpu=_cpu(main),
        children_cpu=sum(_cpu(child) for child in main.children(recursive=True)),
        redis_cpu=_cpu(psutil.Process(broker.pid)),
        commands=sum(entry["calls"] for name, entry in statistics.items() if name not in OWN_COMMANDS),
        reads=int(client.info("stats").get("total_reads_processed", 0)),
    )


def _cpu(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return times.user + times.system


def _per_task(begin: Snapshot, end: Snapshot) -> dict[str, float]:
    done = max(1, begin.left - end.left)
    elapsed = end.at - begin.at
    # What this module has read meanwhile is about two for each look.
    own_reads = elapsed / LOOK_SECONDS
    return {
        "tasks/s": done / elapsed,
        "main us/task": (end.main_cpu - begin.main_cpu) / done * MICROSECONDS,
        "children us/task": (end.children_cpu - begin.children_cpu) / done * MICROSECONDS,
        "redis us/task": (end.redis_cpu - begin.redis_cpu) / done * MICROSECONDS,
        "commands/task": (end.commands - begin.commands) / done,
        "round trips/task": max(0.0, end.reads - begin.reads - own_reads) / done,
    }
