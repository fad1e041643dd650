"""The two systems that are compared: how their worker and publisher processes are started."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tests.bench.probe.record import EFFECTS_URL
from tests.bench.processes import REPOSITORY, Child, forget, python_environment

SystemName = Literal["taskyard", "stock"]
Pool = Literal["prefork", "threads", "solo"]

SETUP_TIMEOUT_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlan:
    """One worker to start.

    Args:
        queue: the queue it serves.
        pool, processes: its pool; solo has one process.
        prefetch: messages reserved per process; None leaves it to the system.
        is_tuned: stock without the chatter between workers; the kit's worker always is.
    """

    queue: str = "default"
    pool: Pool = "prefork"
    processes: int = 2
    prefetch: int | None = 4
    is_tuned: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """The kit, or plain Celery, at one broker.

    Args:
        name: "taskyard" or "stock".
        broker_url, effects_url: where messages wait, and where runs are counted.
        directory: for its database and logs.
        env: more environment for its processes.
    """

    name: SystemName
    broker_url: str
    effects_url: str
    directory: Path
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its processes."""
        own = (
            {
                "DJANGO_SETTINGS_MODULE": "tests.bench.settings",
                "TASKYARD_BROKER_URL": self.broker_url,
                "TASKYARD_STATE_URL": self.broker_url,
                "TASKYARD_VAR_DIR": str(self.directory),
                "TASKYARD_LOG_LEVEL": "WARNING",
            }
            if self.name == "taskyard"
            else {"BENCH_BROKER_URL": self.broker_url}
        )
        return {**python_environment(), EFFECTS_URL: self.effects_url, **own, **self.env}

    def prepare(self) -> None:
        """Make the database of the dead letters. A second call has nothing to do."""
        if self.name == "stock" or (self.directory / "db.sqlite3").exists():
            return
        argv = [sys.executable, "manage.py", "migrate", "--verbosity=0"]
        log_file = self.directory / "migrate.log"
        child = Child("migrate", argv, env=self.environment, log_file=log_file)
        if child.wait(SETUP_TIMEOUT_SECONDS) != 0:
            raise RuntimeError(f"The dead letter database was not made; see {log_file}.")
        forget(child)

    def start_worker(self, name: str, plan: WorkerPlan, *, env: Mapping[str, str] | None = None) -> Child:
        """Start a worker; it is not ready when this returns."""
        argv = _kit_worker(name, plan) if self.name == "taskyard" else _stock_worker(name, plan)
        log_file = self.directory / f"{name}.log"
        return Child(name, argv, env={**self.environment, **(env or {})}, log_file=log_file)

    def start_python(self, name: str, module: str, *arguments: str) -> Child:
        """Start one of our own modules in a process with this system's environment."""
        argv = [sys.executable, "-m", module, self.name, *arguments]
        return Child(name, argv, env=self.environment, log_file=self.directory / f"{name}.log")


def _kit_worker(name: str, plan: WorkerPlan) -> list[str]:
    prefetch = [] if plan.prefetch is None else [f"--prefetch={plan.prefetch}"]
    return [
        *(sys.executable, str(REPOSITORY / "manage.py"), "worker"),
        *(f"--queue={plan.queue}", f"--pool={plan.pool}", f"--processes={plan.processes}", *prefetch),
        f"--name={name}@bench",
    ]


def _stock_worker(name: str, plan: WorkerPlan) -> list[str]:
    prefetch = [] if plan.prefetch is None else [f"--prefetch-multiplier={plan.prefetch}"]
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"] if plan.is_tuned else []
    return [
        *(sys.executable, "-m", "celery", "-A", "tests.bench.stock_app", "worker"),
        *(
            f"--queues={plan.queue}",
            f"--pool={plan.pool}",
            f"--concurrency={plan.processes}",
            *prefetch,
            *quiet,
        ),
        f"--hostname={name}@bench",
    ]
