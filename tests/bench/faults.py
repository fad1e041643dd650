"""What goes wrong in a torture run, and the record of it."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import redis

from tests.bench.fleet import Fleet, Worker
from tests.bench.servers import RedisServer

WORKER_KILL, CHILD_KILL, CONNECTION_CUT, FREEZE, RESTART = (
    "worker-kill",
    "child-kill",
    "connection-cut",
    "freeze",
    "restart",
)
BROKER_KILL_ALWAYS, BROKER_KILL_EVERYSEC = "broker-kill-always", "broker-kill-everysec"
BROKER_KILLS = (BROKER_KILL_ALWAYS, BROKER_KILL_EVERYSEC)
KINDS = (WORKER_KILL, CHILD_KILL, CONNECTION_CUT, FREEZE, *BROKER_KILLS, RESTART)

# Seconds until the next fault: enough for a killed worker to be at work again, little enough for many faults.
PAUSES: dict[str, tuple[float, float]] = {
    WORKER_KILL: (1.5, 3.0),
    CHILD_KILL: (0.5, 1.5),
    CONNECTION_CUT: (0.3, 1.0),
    FREEZE: (1.0, 2.0),
    BROKER_KILL_ALWAYS: (2.0, 4.0),
    BROKER_KILL_EVERYSEC: (2.0, 4.0),
    RESTART: (1.0, 2.0),
}
# A frozen worker stays so for this much longer than its lease.
FREEZE_MARGIN_SECONDS = 3.0
# What an orchestrator waits before it kills: longer than the kit's own patience with running tasks.
STOP_PATIENCE_SECONDS = 30.0
BROKER_AWAY_SECONDS = (0.1, 1.0)


@dataclass(slots=True)
class FaultEvent:
    """One fault.

    Args:
        kind: one of `KINDS`.
        at, until: monotonic seconds; the same for what takes no time.
        worker: the worker that it hit; "" for all.
        pid: the process that it hit, for a single child.
        was_forced: a stopping worker did not end in time and was killed.
    """

    kind: str
    at: float
    until: float
    worker: str = ""
    pid: int = 0
    was_forced: bool = False


@dataclass(slots=True)
class Pending:
    """The second half of a fault that is going on."""

    is_due: Callable[[], bool]
    finish: Callable[[], None]


@dataclass(slots=True)
class Chaos:
    """Injects faults of the given kinds, each at its own pace, and finishes those that last.

    Args:
        fleet, broker: what is hit.
        kinds: of `KINDS`.
        lease_seconds: a freeze lasts longer than this.
        rng: seeded, so that a run's choices can be made again.
    """

    fleet: Fleet
    broker: RedisServer
    kinds: Sequence[str]
    lease_seconds: float
    rng: random.Random
    events: list[FaultEvent] = field(default_factory=list)
    _pending: list[Pending] = field(default_factory=list)
    _due_at: dict[str, float] = field(default_factory=dict)

    def step(self) -> None:
        """Do what is due now. Call it often."""
        self.finish_due()
        for kind in self.rng.sample(self.kinds, len(self.kinds)):
            due_at = self._due_at.setdefault(kind, time.monotonic() + self.rng.uniform(0, PAUSES[kind][1]))
            # What finds nothing to hit stays due.
            if time.monotonic() >= due_at and self._inject(kind):
                self._due_at[kind] = self._next_time(kind)

    def _next_time(self, kind: str) -> float:
        # With many kinds each comes less often: the workers must get some work done in between.
        return time.monotonic() + self.rng.uniform(*PAUSES[kind]) * len(self.kinds)

    def finish_due(self) -> None:
        for pending in list(self._pending):
            if pending.is_due():
                self._pending.remove(pending)
                pending.finish()

    @property
    def is_settled(self) -> bool:
        """Whether no fault is going on."""
        return not self._pending

    def _inject(self, kind: str) -> bool:
        """Return whether there was something to hit."""
        if kind in BROKER_KILLS:
            self._kill_broker(kind)
            return True
        if kind == CONNECTION_CUT:
            return self._cut_connections()
        worker = self.fleet.pick()
        if worker is None:
            return False
        if kind == WORKER_KILL:
            at = self.fleet.kill(worker)
            self._note(kind, at, worker)
        elif kind == CHILD_KILL:
            return self._kill_child(worker)
        elif kind == FREEZE:
            self._freeze(worker)
        else:
            self._restart(worker)
        return True

    def _note(self, kind: str, at: float, worker: Worker | None = None, **more: int) -> FaultEvent:
        event = FaultEvent(kind, at, time.monotonic(), worker=worker.name if worker else "", **more)
        self.events.append(event)
        return event

    def _kill_child(self, worker: Worker) -> bool:
        children = [pid for pid in worker.child.members() if pid != worker.child.pid]
        if not children:
            return False
        pid, at = self.rng.choice(children), time.monotonic()
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self._note(CHILD_KILL, at, worker, pid=pid)
        return True

    def _cut_connections(self) -> bool:
        at = time.monotonic()
        try:
            with self.broker.client() as client:
                client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
                client.execute_command("CLIENT", "KILL", "TYPE", "pubsub", "SKIPME", "yes")
        except redis.exceptions.RedisError:
            return False
        self._note(CONNECTION_CUT, at)
        return True

    def _kill_broker(self, kind: str) -> None:
        at = time.monotonic()
        self.broker.kill()
        time.sleep(self.rng.uniform(*BROKER_AWAY_SECONDS))
        self.broker.start()
        self._note(kind, at)

    def _freeze(self, worker: Worker) -> None:
        at = self.fleet.freeze(worker)
        event = self._note(FREEZE, at, worker)
        thaw_at = at + self.lease_seconds + FREEZE_MARGIN_SECONDS
        event.until = thaw_at

        def thaw() -> None:
            event.until = self.fleet.thaw(worker)

        self._pending.append(Pending(lambda: time.monotonic() >= thaw_at, thaw))

    def _restart(self, worker: Worker) -> None:
        at = self.fleet.begin_stop(worker)
        event = self._note(RESTART, at, worker)

        def has_ended() -> bool:
            return worker.child.poll() is not None or time.monotonic() - at > STOP_PATIENCE_SECONDS

        def finish() -> None:
            event.was_forced = worker.child.poll() is None
            event.until = time.monotonic()
            self.fleet.finish_stop(worker)

        event.until = at + STOP_PATIENCE_SECONDS
        self._pending.append(Pending(has_ended, finish))
