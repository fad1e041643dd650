"""Checks of a task's declaration, made once when the task is bound to the app: never at its first failure."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from itertools import chain
from typing import Any

from taskyard.errors import TaskDefinitionError, did_you_mean
from taskyard.priority import MAX_PRIORITY, MIN_PRIORITY
from taskyard.queues import QueueSpec
from taskyard.tasks import (
    breaking,
    cancelling,
    idempotency,
    scrubbing,
    singleton,
    soft_limit,
    unfit_options,
    unique,
)

# Options that only tasks with this base have.
_OPTIONS_OF_BASES = {"IdempotentTask": idempotency.OPTIONS, "SingletonTask": singleton.OPTIONS}
_FEATURES = (scrubbing, cancelling, breaking, singleton, idempotency, soft_limit, unique)

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
    """Refuse options of a decorated task that nothing reads, or that would replace one of its methods.

    Raises:
        TaskDefinitionError: names the option and the nearest one that exists.
    """
    methods = {name for name in dir(base) if _is_method(base, name)}
    options = {name for name in dir(base) if not name.startswith("_")} - methods | _CELERY_OPTIONS | {"retry"}
    task = f"Task {vars(task_class).get('name')!r}"
    for name, value in vars(task_class).items():
        if name == "retry":
            # a policy has been taken out by now
            raise TaskDefinitionError(
                f"{task} has retry={value!r}. "
                "Give a policy of taskyard.retry, as in Exponential(max_retries=5)."
            )
        # functions are hooks: on_failure=..., before_start=...
        is_hook = name in methods and (callable(value) or isinstance(value, classmethod))
        if not name.startswith("_") and name not in options and not is_hook:
            raise TaskDefinitionError(f"{task} has {_unknown_option(name, options)}")


def _unknown_option(name: str, options: Iterable[str]) -> str:
    bases = [base for base, names in _OPTIONS_OF_BASES.items() if name in names]
    if bases:
        given = " or ".join(f"base={base}" for base in bases)
        return f"the option {name!r}, which is one of {' and '.join(bases)}. Give {given}, too."
    known = [*options, *chain.from_iterable(_OPTIONS_OF_BASES.values())]
    suggestion = did_you_mean(name, known)
    return f"the unknown option {name!r}.{suggestion} See platform/docs/guide/tasks.md for the options."


def _is_method(base: type[Any], name: str) -> bool:
    # static: reading `app` of a class looks for the current application
    attribute = inspect.getattr_static(base, name)
    is_read_only = isinstance(attribute, property) and attribute.fset is None
    return is_read_only or callable(attribute) or isinstance(attribute, (classmethod, staticmethod))


def check_priority(priority: Any, *, where: str) -> None:
    """Refuse a priority that is no whole number from 0 to 9.

    Raises:
        TaskDefinitionError: names the place and the range.
    """
    is_whole = isinstance(priority, int) and not isinstance(priority, bool)
    if not is_whole or not MIN_PRIORITY <= priority <= MAX_PRIORITY:
        raise TaskDefinitionError(
            f"{where} has priority={priority!r}. Priorities are "
            f"{MIN_PRIORITY} to {MAX_PRIORITY}, {MAX_PRIORITY} the most urgent."
        )


def check_limits(task: Any, spec: QueueSpec) -> None:
    """Refuse a soft limit that the queue's hard limit comes before.

    Raises:
        TaskDefinitionError: names both.
    """
    soft = task.soft_time_limit
    if soft is not None and task.time_limit is None and soft >= spec.time_limit_seconds:
        raise TaskDefinitionError(
            f"Task {task.name!r} has soft_time_limit={soft}, but the hard limit of its queue {spec.name!r} "
            f"is {spec.time_limit_seconds:g} s. Give the task a time_limit above its soft limit, too."
        )


def check_values(task: Any) -> None:
    """Refuse values that could never work.

    Raises:
        TaskDefinitionError: limits that contradict each other, an impossible priority, an unknown outcome,
            a marked argument that the task does not have, or `self` without bind=True.
    """
    _check_bound(task)
    unfit_options.check(task)
    if task.priority is not None:
        check_priority(task.priority, where=f"Task {task.name!r}")
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
    _check_redacted_names(task)
    for feature in _FEATURES:
        feature.check_declaration(task)


def _check_bound(task: Any) -> None:
    run = inspect.getattr_static(task if inspect.isclass(task) else type(task), "run")
    # Celery makes the function of a task without bind=True a static method
    if isinstance(run, staticmethod) and next(iter(inspect.signature(run.__func__).parameters), "") == "self":
        raise TaskDefinitionError(
            f"Task {task.name!r}: its first argument is self, but bind=True is not set, so a call would have "
            "to pass it. Give bind=True, or remove the argument."
        )


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
