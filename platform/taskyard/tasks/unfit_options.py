"""Options of Celery's that would lose work or that nothing reads here: refused when the task is declared."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterator
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

from taskyard.errors import TaskDefinitionError
from taskyard.queues import QueueTable

# Of times that the stores are given: beyond, their dates end.
LONGEST_SECONDS = 10 * 365 * 24 * 3600
_UNSTARTED = (CoroutineType, GeneratorType, AsyncGeneratorType)
# Celery reads them for `autoretry_for`, and for nothing else.
_OF_AUTORETRY = ("dont_autoretry_for", "retry_backoff", "retry_backoff_max", "retry_jitter", "retry_kwargs")
_POLICY = "Give retry=Exponential(max_retries=..., on=(...,)) instead: the retry policy decides."


def check(task: Any) -> None:
    """Refuse a task whose calls would be lost, and options that would be ignored in silence.

    Args:
        task: the task's class, as bound to its app.

    Raises:
        TaskDefinitionError: names the option, its value and what to write instead.
    """
    _check_function(task)
    _check_delivery(task)
    _check_limits(task)
    _check_marks(task)


def _check_function(task: Any) -> None:
    for function in _own_code(inspect.getattr_static(task, "run")):
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise TaskDefinitionError(
                f"Task {task.name!r} is an async function: {_named(function)}. Workers run plain functions, "
                "so its body would never run. Write a plain function that calls it with "
                "asgiref.sync.async_to_sync."
            )
        if inspect.isgeneratorfunction(function):
            raise TaskDefinitionError(
                f"Task {task.name!r} is a generator (it has a yield): {_named(function)}. Nobody would "
                "iterate it, so its body would never run. Do the work in a plain function."
            )


def _own_code(run: Any) -> Iterator[Callable[..., Any]]:
    """Yield the function that a worker calls, without what only hands a call on.

    What a decorator wraps is not looked into: it may run the coroutine. `refuse_unstarted` sees if not.
    """
    while isinstance(run, (staticmethod, classmethod, functools.partial, functools.partialmethod)):
        run = run.__func__ if isinstance(run, (staticmethod, classmethod)) else run.func
    yield run
    if not inspect.isroutine(run) and callable(run):
        # an object with __call__
        yield type(run).__call__


def refuse_unstarted(task: Any, result: Any) -> None:
    """Refuse what a task has returned if it is the task's own code, not begun: a coroutine or a generator.

    For what a decorator hides at the declaration.

    Raises:
        TaskDefinitionError: says what was returned. A run that ends in it is not retried.
    """
    if not isinstance(result, _UNSTARTED) or getattr(result, "__name__", "") == "<genexpr>":
        return
    kind = type(result).__name__
    if isinstance(result, CoroutineType):
        # Python would warn that nobody has awaited it
        result.close()
    raise TaskDefinitionError(
        f"Task {task.name!r} has returned the {kind} {_named(result)}, whose body has not run. Run it in "
        "the task: asgiref.sync.async_to_sync(function)(...) for a coroutine, a loop for a generator."
    )


def _named(function: Any) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


def _check_delivery(task: Any) -> None:
    if not task.acks_late and task.on_exhausted != "drop":
        raise TaskDefinitionError(
            f"Task {task.name!r} has acks_late={task.acks_late!r}. A worker that dies would lose it without "
            "a trace; the kit promises that it runs again. Leave the option out, or give "
            "on_exhausted='drop', too, for work that nobody will miss."
        )
    if task.serializer != "json":
        raise TaskDefinitionError(
            f"Task {task.name!r} has serializer={task.serializer!r}. Messages are JSON only (TY007): no "
            "worker would accept its calls. Leave the option out."
        )
    if task.reject_on_worker_lost:
        raise TaskDefinitionError(
            f"Task {task.name!r} has reject_on_worker_lost={task.reject_on_worker_lost!r}, which nothing "
            "reads. Leave it out: a lost process runs its task again, MAX_WORKER_LOSSES times."
        )
    if not isinstance(task.ignore_result, bool):
        raise TaskDefinitionError(
            f"Task {task.name!r} has ignore_result={task.ignore_result!r}. Use True or False; False stores "
            "the result."
        )


def _check_limits(task: Any) -> None:
    for option in ("soft_time_limit", "time_limit"):
        value = getattr(task, option)
        if value is None:
            continue
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not 0 < value < math.inf:
            raise TaskDefinitionError(
                f"Task {task.name!r} has {option}={value!r}. Give seconds above 0 as a number, or leave it "
                "out for the limit of the queue."
            )


def _check_marks(task: Any) -> None:
    names = task.redact
    if isinstance(names, (list, tuple, set, frozenset)) and all(isinstance(name, str) for name in names):
        return
    raise TaskDefinitionError(f"Task {task.name!r} has redact={names!r}. Give a tuple of names.")


def check_retries(task: Any, table: QueueTable) -> None:
    """Refuse options about retries that nothing reads, or that decide besides the policy.

    Raises:
        TaskDefinitionError: names the option, its value and what to write instead.
    """
    stated = _stated(task)
    # a class that has met an app before has its queue's by now
    policy = task.retry_policy
    has_policy = policy is not None and not any(policy is spec.retry for spec in table.values())
    if stated.get("throws"):
        raise TaskDefinitionError(
            f"Task {task.name!r} has throws={stated['throws']!r}, which nothing reads. Give the policy these "
            "errors as never_on=(...,): they are not retried, and their dead letters say why."
        )
    is_automatic = bool(stated.get("autoretry_for"))
    if is_automatic and has_policy:
        raise TaskDefinitionError(
            f"Task {task.name!r} has autoretry_for={stated['autoretry_for']!r} and retry={policy!r}, so "
            "two would decide about each failure. Leave autoretry_for out and give the policy these errors "
            "as on=(...,)."
        )
    for option in _OF_AUTORETRY:
        if option in stated and not is_automatic:
            raise TaskDefinitionError(
                f"Task {task.name!r} has {option}={stated[option]!r}, which nothing reads. {_POLICY}"
            )
    # `self.retry()` is Celery's, and so is its bound; with a policy there is one too many
    has_self = not isinstance(inspect.getattr_static(task, "run"), staticmethod)
    if "max_retries" in stated and not is_automatic and (has_policy or not has_self):
        raise TaskDefinitionError(
            f"Task {task.name!r} has max_retries={stated['max_retries']!r}, which nothing reads. {_POLICY}"
        )


def _stated(task: Any) -> dict[str, Any]:
    """Return the attributes that a task and its own bases state, without defaults of the kit and Celery."""
    stated: dict[str, Any] = {}
    for base in reversed(task.__mro__):
        if not base.__module__.startswith(("taskyard.", "celery.")) or vars(base).get("_decorated"):
            stated |= vars(base)
    return stated
