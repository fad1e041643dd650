"""Checks of a task's declaration, made once when the task is bound to the app: never at its first failure."""

from __future__ import annotations

import inspect
from typing import Any

from taskyard.errors import TaskDefinitionError, did_you_mean
from taskyard.priority import MAX_PRIORITY, MIN_PRIORITY

# Options that Celery's decorators take without there being a class attribute of that name.
_CELERY_OPTIONS = frozenset(
    {
        "autoretry_for",
        "dont_autoretry_for",
        "retry_backoff",
        "retry_backoff_max",
        "retry_jitter",
        "retry_kwargs",
        "exchange",
        "routing_key",
        "delivery_mode",
        "compression",
        "queue",
        "immediate",
        "mandatory",
        "shadow_name",
        "pydantic",
    }
)
_EXHAUSTED = ("dead_letter", "drop")


def check_options(task_class: type[Any], base: type[Any]) -> None:
    """Refuse options of a decorated task that nothing reads.

    Raises:
        TaskDefinitionError: names the option and the nearest one that exists.
    """
    known = {name for name in dir(base) if not name.startswith("_")} | _CELERY_OPTIONS
    for name in vars(task_class):
        if not name.startswith("_") and name not in known:
            raise TaskDefinitionError(
                f"Task {vars(task_class).get('name')!r} has the unknown option {name!r}."
                f"{did_you_mean(name, known)} "
                "See the guide page on tasks for the options."
            )


def check_values(task: Any) -> None:
    """Refuse values that could never work.

    Raises:
        TaskDefinitionError: limits that contradict each other, an impossible priority, an unknown outcome,
            or a marked argument that the task does not have.
    """
    if task.priority is not None and not MIN_PRIORITY <= int(task.priority) <= MAX_PRIORITY:
        raise TaskDefinitionError(
            f"Task {task.name!r} has priority={task.priority}. Priorities are "
            f"{MIN_PRIORITY} to {MAX_PRIORITY}, {MAX_PRIORITY} the most urgent."
        )
    soft, hard = task.soft_time_limit, task.time_limit
    if soft is not None and hard is not None and not 0 < soft < hard:
        raise TaskDefinitionError(
            f"Task {task.name!r} has soft_time_limit={soft} and time_limit={hard}. "
            "The soft limit must be above 0 and below the hard limit (TY001)."
        )
    if task.on_exhausted is not None and task.on_exhausted not in _EXHAUSTED:
        raise TaskDefinitionError(
            f"Task {task.name!r} has on_exhausted={task.on_exhausted!r}."
            f"{did_you_mean(str(task.on_exhausted), _EXHAUSTED)} Use 'dead_letter' or 'drop'."
        )
    if isinstance(task.redact, str):
        raise TaskDefinitionError(f"Task {task.name!r} has redact={task.redact!r}. Give a tuple of names.")
    _check_redacted_names(task)


def _check_redacted_names(task: Any) -> None:
    parameters = inspect.signature(task.run).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return
    for name in task.redact:
        if name != "*" and name not in parameters:
            raise TaskDefinitionError(
                f"Task {task.name!r} redacts the argument {name!r}, which it does not have."
                f"{did_you_mean(name, parameters)} Its arguments are: {', '.join(parameters) or 'none'}."
            )


def is_kit_task_name(name: str) -> bool:
    """Return whether a task is ours to check: not one of Celery's own (`celery.chord`, ...)."""
    return not name.startswith("celery.")
