"""Dead letters of a probe task, as its failed runs leave them, for tests without a worker."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import current_app

from taskyard import create_app
from taskyard.conf import build_settings
from taskyard.deadletters import service
from taskyard.deadletters.models import DeadLetter, FaultCount
from taskyard.masking import MASK
from taskyard.retry import Fixed
from taskyard.tasks.failures import Failure

TASK = "letters.charge"
FAILURE = Failure(
    task_name=TASK,
    task_id="id-1",
    reason="retries_exhausted",
    queue="high",
    priority=9,
    args=[7],
    true_args=[7],
    headers={"tenant": "acme", "correlation_id": "corr-1", "first_published_at": 1.0, "worker_losses": 2},
    correlation_id="corr-1",
    retries=3,
    error="ConnectionError: refused",
    error_type="builtins.ConnectionError",
    error_place="billing/charging.py:42 in charge",
    traceback="Traceback ...",
)
CARD = "4111-1111"
SECRET = dataclasses.replace(FAILURE, kwargs={"card": MASK}, true_kwargs={"card": CARD})


def charge(order: int, *, card: str | None = None) -> None:
    """The body of the probe task."""


def letter(failure: Failure = FAILURE, **changes: Any) -> DeadLetter:
    """Record a failure, and return its row as it is in the database."""
    failure = dataclasses.replace(failure, **changes)
    service.record(failure)
    return DeadLetter.objects.get(
        task_id=failure.task_id, retries=failure.retries or 0, reason=failure.reason
    )


def letters(number: int, **changes: Any) -> list[DeadLetter]:
    """Record so many failures, each of its own call."""
    return [
        letter(task_id=f"id-{place}", args=[place], true_args=[place], **changes) for place in range(number)
    ]


def counted(**fault: Any) -> dict[str, int]:
    """Return what the table of counts says by status, without zeros."""
    found = dict.fromkeys(DeadLetter.Status.values, 0)
    for row in FaultCount.objects.filter(**fault):
        for status in found:
            found[status] += getattr(row, status)
    return {status: number for status, number in found.items() if number}


@contextmanager
def unreachable_broker(settings: Any, *, port: int = 1) -> Iterator[None]:
    """Have an application whose broker takes nothing as the current one, with the same probe task.

    Args:
        port: where it listens; nobody does on the first.
    """
    before = current_app._get_current_object()
    settings.CELERY_BROKER_URL = f"redis://127.0.0.1:{port}/0"
    settings.CELERY_BROKER_TRANSPORT = "taskyard.transport.redis:Transport"
    app = create_app("down", settings=build_settings({"PUBLISH_TIMEOUT_SECONDS": 0.2}), set_as_current=False)
    # now, while the settings above are in force
    assert app.conf.broker_url == settings.CELERY_BROKER_URL
    app.task(name=TASK, shared=False, retry=Fixed(seconds=1))(charge)
    app.set_current()
    try:
        yield
    finally:
        before.set_current()
        app.close()
