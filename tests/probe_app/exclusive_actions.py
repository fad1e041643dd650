"""What a probe console can do with equal calls."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from celery import current_app

from tests.probe_app.exclusive import pass_gate


def publish_from_threads(task: str, *, args: list[Any], threads: int, gate: str) -> list[dict[str, Any]]:
    """Make the same call from many threads at once, when the gate opens; return what each got."""
    results: list[dict[str, Any]] = []

    def publish() -> None:
        pass_gate(gate)
        result = current_app.tasks[task].apply_async(args)
        results.append({"id": result.id, "is_duplicate": result.is_duplicate})

    workers = [threading.Thread(target=publish) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return results


def die_while_publishing(task: str, *, args: list[Any]) -> None:
    """Claim the key of a call, and be killed before the broker has its message."""
    app = current_app

    def die(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    # the message would go out here
    app.amqp.send_task_message = die
    app.tasks[task].apply_async(args)
