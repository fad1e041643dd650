"""TY009: a task has an explicit, stable name that does not follow its module path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core.checks import CheckMessage, Warning, register

from taskyard.tasks.base import Task


@register()
def check_explicit_names(**_: Any) -> list[CheckMessage]:
    """Warn of names that Celery made from the module: moving the code would orphan messages in flight."""
    return [
        Warning(
            f"Task {task.name!r} is named after its module: moving the code orphans its messages in flight.",
            hint="Give it a name of its own: @shared_task(name='<area>.<verb_object>').",
            id="taskyard.TY009",
        )
        for task in _derived_names()
    ]


def _derived_names() -> Iterator[Any]:
    from celery import current_app

    # The tasks of every app, also of those that nothing has imported yet; a wrong declaration raises here.
    # Not by the loader's import_default_modules(): Celery answers its signal with another run of these
    # checks.
    current_app.autodiscover_tasks(force=True)
    for task in current_app.tasks.values():
        function = getattr(task, "__wrapped__", None)
        if not isinstance(task, Task) or function is None:
            continue
        if task.name == f"{task.__module__}.{getattr(function, '__name__', '')}":
            yield task
