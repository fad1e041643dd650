"""What is compared: the kit as it is shipped, and stock Celery with its defaults and tuned.

The same guarantees for all: acknowledge late, ignore results, JSON, the same pool and concurrency.
The log level is WARNING.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.bench.probe.record import WITHOUT_EVENTS
from tests.bench.servers import RedisServer
from tests.bench.systems import Pool, System, SystemName, WorkerPlan

PROCESSES: Mapping[Pool, int] = {"prefork": 2, "threads": 8, "solo": 1}
TUNED_PREFETCH = 64


@dataclass(frozen=True, slots=True)
class Variant:
    """A system with its settings.

    Args:
        name: its column in the tables.
        system: "taskyard" or "stock".
        prefetch: None leaves it to the system: 4 for stock, and for the kit what the queue table says.
        is_tuned: stock without gossip, mingle and heartbeat; the kit without events.
    """

    name: str
    system: SystemName
    prefetch: int | None = None
    is_tuned: bool = False
    env: Mapping[str, str] = field(default_factory=dict)

    def plan(self, pool: Pool, queue: str = "default") -> WorkerPlan:
        """Return its worker for a pool."""
        is_quiet = self.is_tuned or self.system == "taskyard"
        return WorkerPlan(
            queue=queue, pool=pool, processes=PROCESSES[pool], prefetch=self.prefetch, is_tuned=is_quiet
        )

    def at(self, broker: RedisServer, effects: RedisServer, directory: Path) -> System:
        """Return the system at a broker."""
        return System(
            name=self.system,
            broker_url=broker.url,
            effects_url=effects.url,
            directory=directory,
            env=self.env,
        )


STOCK = Variant("stock", "stock")
STOCK_TUNED = replace(STOCK, name="stock tuned", prefetch=TUNED_PREFETCH, is_tuned=True)
TASKYARD = Variant("taskyard", "taskyard")
TASKYARD_TUNED = replace(
    TASKYARD, name="taskyard tuned", prefetch=TUNED_PREFETCH, is_tuned=True, env={WITHOUT_EVENTS: "1"}
)
VARIANTS = (STOCK, TASKYARD, STOCK_TUNED, TASKYARD_TUNED)
# Each column of ratios: this one over that one.
RATIOS = ((TASKYARD, STOCK), (TASKYARD, STOCK_TUNED), (TASKYARD_TUNED, STOCK_TUNED))
