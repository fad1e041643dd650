"""The workers of a torture run: a fixed number, a new name for each life, unasked exits counted."""

from __future__ import annotations

import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.probe.record import RECEIVED_FILE, WORKER
from tests.bench.processes import Child, forget
from tests.bench.systems import System, WorkerPlan

# A worker works for some time of this range before the next fault may hit it; starting one takes seconds.
WORK_SECONDS = (0.5, 4.0)


@dataclass(frozen=True, slots=True)
class UnaskedExit:
    """A worker that ended by itself."""

    worker: str
    at: float
    exit_code: int


@dataclass(slots=True)
class Worker:
    """One life of a worker. Its name appears in every record that it leaves."""

    name: str
    child: Child
    received_file: Path
    is_frozen: bool = False
    is_stopping: bool = False
    at_work_since: float | None = None
    works_for: float = WORK_SECONDS[0]

    def notice_work(self) -> None:
        """Note when it has received its first task."""
        if (
            self.at_work_since is None
            and self.received_file.exists()
            and self.received_file.stat().st_size > 0
        ):
            self.at_work_since = time.monotonic()

    @property
    def is_at_work(self) -> bool:
        """Whether a fault would hit work: before that, killing it proves nothing and only slows the run."""
        at_work = self.at_work_since is not None and time.monotonic() - self.at_work_since > self.works_for
        return at_work and not self.is_frozen and not self.is_stopping and self.child.poll() is None


@dataclass(slots=True)
class Fleet:
    """A fixed number of workers.

    Args:
        system: what to start.
        plan: the worker.
        size: how many.
        rng: seeded.
    """

    system: System
    plan: WorkerPlan
    size: int
    rng: random.Random
    workers: list[Worker] = field(default_factory=list)
    unasked_exits: list[UnaskedExit] = field(default_factory=list)
    lives: int = 0

    def fill(self) -> None:
        """Replace the workers that have ended; count those that ended by themselves."""
        for worker in list(self.workers):
            worker.notice_work()
            code = worker.child.poll()
            if code is None or worker.is_stopping:
                continue
            self.unasked_exits.append(UnaskedExit(worker.name, time.monotonic(), code))
            worker.child.kill()
            self._remove(worker)
        while len(self.workers) < self.size:
            self.workers.append(self._start())

    def _start(self) -> Worker:
        name = f"w{self.lives}"
        self.lives += 1
        received = self.system.directory / f"{name}.received"
        child = self.system.start_worker(name, self.plan, env={WORKER: name, RECEIVED_FILE: str(received)})
        return Worker(name, child, received, works_for=self.rng.uniform(*WORK_SECONDS))

    def pick(self) -> Worker | None:
        """Return a worker at work, or None while there is no other to take over its tasks."""
        able = [worker for worker in self.workers if worker.is_at_work]
        return self.rng.choice(able) if len(able) >= min(2, self.size) else None

    def kill(self, worker: Worker) -> float:
        """SIGKILL a worker with all its processes; return when."""
        at = time.monotonic()
        worker.child.kill()
        self._remove(worker)
        return at

    def freeze(self, worker: Worker) -> float:
        """SIGSTOP all its processes; return when."""
        worker.is_frozen = True
        worker.child.signal_all(signal.SIGSTOP)
        return time.monotonic()

    def thaw(self, worker: Worker) -> float:
        """SIGCONT all its processes; return when."""
        at = time.monotonic()
        worker.child.signal_all(signal.SIGCONT)
        worker.is_frozen = False
        return at

    def begin_stop(self, worker: Worker) -> float:
        """SIGTERM the worker's main process, as an orchestrator does; return when."""
        worker.is_stopping = True
        at = time.monotonic()
        worker.child.signal(signal.SIGTERM)
        return at

    def finish_stop(self, worker: Worker) -> None:
        """Remove a worker that was told to stop, with what is left of it."""
        worker.child.kill()
        self._remove(worker)

    def _remove(self, worker: Worker) -> None:
        self.workers.remove(worker)
        forget(worker.child)

    def kill_all(self) -> None:
        """End the run: nothing more may start."""
        for worker in list(self.workers):
            worker.child.kill()
            self._remove(worker)
