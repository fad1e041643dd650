"""The publishing side of a system, inside a process that was started with its environment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

BATCH_SIZE = 500


class Client:
    """Publishes the probe tasks of one system.

    Args:
        system: "taskyard" or "stock".
    """

    def __init__(self, system: str) -> None:
        self.system = system
        self.app = _kit_app() if system == "taskyard" else _stock_app()

    def task(self, name: str) -> Any:
        """Return the probe task of this name."""
        return self.app.tasks[f"probe.{name}"]

    def publish_many(self, task: Any, calls: Iterable[Sequence[Any]]) -> int:
        """Publish many calls of a task, the fastest way that the system documents; return how many."""
        calls = [tuple(call) for call in calls]
        if self.system == "taskyard":
            task.enqueue_many(calls)
            return len(calls)
        with self.app.producer_or_acquire() as producer, producer.batch(BATCH_SIZE):
            for call in calls:
                task.apply_async(call, producer=producer)
        return len(calls)


def _kit_app() -> Any:
    import django

    django.setup()
    from tests.bench.kit_app import app

    app.finalize()
    app.loader.import_default_modules()
    return app


def _stock_app() -> Any:
    from tests.bench.stock_app import app

    return app
