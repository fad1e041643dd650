"""The names that the filter suggests: those of the registry. The table would have to be read as a whole."""

from __future__ import annotations

from celery import current_app

from taskyard.deadletters.registry import find_task
from taskyard.tasks.definition import is_kit_task_name


def task_names() -> list[str]:
    """Return the names of the project's tasks, sorted."""
    find_task("")  # imports the task modules that nothing has imported yet
    return sorted(name for name in current_app.tasks if is_kit_task_name(name))
