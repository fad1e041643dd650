"""The tasks that this process knows."""

from __future__ import annotations

from typing import Any

from celery import current_app

from taskyard.errors import DeadLetterError, did_you_mean
from taskyard.tasks.definition import is_kit_task_name


def find_task(name: str) -> Any:
    """Return the task, or None if this process does not know it."""
    # a web process or a command may not have imported the task modules yet
    current_app.loader.import_default_modules()
    return current_app.tasks.get(name)


def require_task(name: str, *, where: str) -> Any:
    """Return the task.

    Raises:
        DeadLetterError: this process does not know it; with the nearest name.
    """
    task = find_task(name)
    if task is None:
        names = [known for known in current_app.tasks if is_kit_task_name(known)]
        raise DeadLetterError(
            f"{where} cannot be replayed: the task {name!r} is not known here.{did_you_mean(name, names)} "
            "Replay it where its code is deployed, or discard it with a reason."
        )
    return task
