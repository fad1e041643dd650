"""One torture run, from empty servers to the verdict."""

from __future__ import annotations

import contextlib
import json
import random
import re
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import redis

from tests.bench.faults import BROKER_KILL_EVERYSEC, Chaos
from tests.bench.fleet import Fleet
from tests.bench.history import History, Start
from tests.bench.inventory import count_waiting, take_inventory
from tests.bench.probe.record import COUNTS_KEY, EFFECTS_KEY, STARTS_KEY
from tests.bench.processes import Child
from tests.bench.publisher import ACKNOWLEDGED, read_ledger
from tests.bench.servers import BrokerKind, RedisServer
from tests.bench.systems import Pool, System, SystemName, WorkerPlan
from tests.bench.verdict import Leftovers, Verdict, judge

QUEUE = "default"
# Published before the first worker starts; the rest is published while faults go on.
BURST_SHARE = 0.75
LOOK_SECONDS = 0.02
QUIET_SECONDS = 1.0
START_GRACE_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TorturePlan:
    """What a run does; see `python -m tests.bench.torture --help`."""

    tasks: int
    seconds: float
    faults: tuple[str, ...]
    broker: BrokerKind
    transport: SystemName
    seed: int
    task_seconds: float
    is_idempotent: bool
    workers: int
    processes: int
    pool: Pool
    prefetch: int
    rate: float
    lease_seconds: float
    drain_seconds: float


@dataclass(slots=True)
class Torture:
    """A run in progress."""

    plan: TorturePlan
    broker: RedisServer
    effects: RedisServer
    fleet: Fleet
    chaos: Chaos
    publisher: Child
    ledger: Path
    tell: Callable[[str], object]
    began: float = field(default_factory=time.monotonic)

    def run(self) -> bool:
        """Go on until everything has drained (True) or nothing moves any more (False)."""
        chaos_ends = self.began + self.plan.seconds
        is_stormy = bool(self.plan.faults)
        while True:
            time.sleep(LOOK_SECONDS)
            self.fleet.fill()
            if is_stormy and (time.monotonic() > chaos_ends or self._has_all_run()):
                is_stormy = False
                self.tell(f"faults end after {time.monotonic() - self.began:.0f} s; waiting for the rest")
            if is_stormy:
                self.chaos.step()
            else:
                self.chaos.finish_due()
                if self.chaos.is_settled:
                    return self._drain()

    def _has_all_run(self) -> bool:
        """Whether there is nothing left that a fault could hit."""
        if not self._is_queue_done():
            return False
        published = sum(len(p.numbers) for p in read_ledger(self.ledger) if p.outcome == ACKNOWLEDGED)
        with self.effects.client() as client:
            return int(client.hlen(COUNTS_KEY)) >= published

    def _is_queue_done(self) -> bool:
        return self.publisher.poll() is not None and self._waiting() == 0

    def _waiting(self) -> int:
        try:
            with self.broker.client() as client:
                return count_waiting(client, QUEUE)
        except redis.exceptions.RedisError:
            return -1

    def _drain(self) -> bool:
        quiet_since: float | None = None
        moved_at, runs = time.monotonic(), -1
        while True:
            time.sleep(0.1)
            self.fleet.fill()
            now = time.monotonic()
            if (current := self._runs()) != runs:
                moved_at, runs = now, current
            if now - moved_at > self.plan.drain_seconds:
                return False
            if not self._is_empty():
                quiet_since = None
            elif quiet_since is None:
                quiet_since = now
            elif now - quiet_since > QUIET_SECONDS:
                return True

    def _runs(self) -> int:
        with self.effects.client() as client:
            return int(client.llen(STARTS_KEY))

    def _is_empty(self) -> bool:
        if not self._is_queue_done():
            return False
        with self.broker.raw_client() as client:
            return not take_inventory(client).held(QUEUE)


def run_torture(plan: TorturePlan, directory: Path, *, tell: Callable[[str], object]) -> Verdict:
    """Do one run; servers and workers write to `directory`."""
    aof = "everysec" if BROKER_KILL_EVERYSEC in plan.faults else "always"
    broker = RedisServer(directory / "broker", kind=plan.broker, aof=aof).start()
    effects = RedisServer(directory / "effects").start()
    system = _system(plan, broker, effects, directory)
    system.prepare()
    ledger = directory / "ledger"
    publisher = _start_publisher(plan, system, ledger)
    _wait_for_burst(plan, publisher, ledger)
    worker = WorkerPlan(queue=QUEUE, pool=plan.pool, processes=plan.processes, prefetch=plan.prefetch)
    fleet = Fleet(system, worker, plan.workers, random.Random(plan.seed))
    chaos = Chaos(fleet, broker, plan.faults, plan.lease_seconds, random.Random(plan.seed))
    torture = Torture(plan, broker, effects, fleet, chaos, publisher, ledger, tell)
    drained = torture.run()
    seconds = time.monotonic() - torture.began
    fleet.kill_all()
    history = History(read_ledger(ledger), _starts(effects), _received(directory), chaos.events)
    return judge(
        history,
        _leftovers(plan, broker, effects, directory),
        fleet.unasked_exits,
        tasks=plan.tasks,
        seconds=seconds,
        drained=drained,
        lease_seconds=plan.lease_seconds,
    )


def _system(plan: TorturePlan, broker: RedisServer, effects: RedisServer, directory: Path) -> System:
    env = {"BENCH_VISIBILITY_SECONDS": str(plan.lease_seconds)} if plan.transport == "stock" else {}
    return System(
        name=plan.transport, broker_url=broker.url, effects_url=effects.url, directory=directory, env=env
    )


def _start_publisher(plan: TorturePlan, system: System, ledger: Path) -> Child:
    task = "touch_once" if plan.is_idempotent else "touch"
    burst = int(plan.tasks * BURST_SHARE)
    numbers = (plan.tasks, burst, plan.rate, plan.task_seconds)
    return system.start_python("publisher", "tests.bench.publisher", str(ledger), task, *map(str, numbers))


def _wait_for_burst(plan: TorturePlan, publisher: Child, ledger: Path) -> None:
    deadline = time.monotonic() + START_GRACE_SECONDS
    burst = int(plan.tasks * BURST_SHARE)
    while sum(len(p.numbers) for p in read_ledger(ledger)) < burst:
        if publisher.poll() not in (None, 0) or time.monotonic() > deadline:
            raise RuntimeError(f"The publisher did not publish; see {ledger.parent}/publisher.log.")
        time.sleep(0.05)


def _starts(effects: RedisServer) -> list[Start]:
    with effects.client() as client:
        lines = client.lrange(STARTS_KEY, 0, -1)
        counted = sum(map(int, client.hvals(COUNTS_KEY)))
    if counted != len(lines):
        raise RuntimeError(
            f"The effects store counts {counted} runs but lists {len(lines)}: it was disturbed."
        )
    found = []
    for line in lines:
        number, at, worker, pid = line.split()
        found.append(Start(float(at), int(number), worker, int(pid)))
    return found


def _received(directory: Path) -> dict[str, list[tuple[float, int]]]:
    received: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for file in directory.glob("*.received"):
        for line in file.read_text().splitlines():
            number, at = line.split()
            received[file.stem].append((float(at), int(number)))
    return dict(received)


def _leftovers(plan: TorturePlan, broker: RedisServer, effects: RedisServer, directory: Path) -> Leftovers:
    with broker.raw_client() as client:
        inventory = take_inventory(client)
    with effects.client() as client:
        applied = set(map(int, client.hkeys(EFFECTS_KEY)))
    return Leftovers(
        waiting=set(inventory.waiting(QUEUE)),
        held=set(inventory.held(QUEUE)),
        dead=set(inventory.dead()),
        held_keys=inventory.held_keys(QUEUE),
        dead_letters=_dead_letters(directory / "db.sqlite3"),
        effects=applied if plan.is_idempotent else None,
    )


def _dead_letters(database: Path) -> dict[str, list[int]]:
    if not database.exists():
        return {}
    found: dict[str, list[int]] = defaultdict(list)
    with contextlib.closing(sqlite3.connect(database)) as connection:
        for reason, headers in connection.execute("SELECT reason, headers FROM deadletters_deadletter"):
            found[reason].append(_number_of(headers))
    return dict(found)


def _number_of(headers: str) -> int:
    """The task number of a dead letter, from what is always shown: the arguments are not always decoded."""
    shown = json.loads(headers or "{}").get("argsrepr") or ""
    match = re.match(r"\((\d+)", shown)
    return int(match.group(1)) if match else -1
