"""The options of an idempotent task, checked when it is declared."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from taskyard.errors import TaskDefinitionError, did_you_mean
from taskyard.tasks.call_keys import check_key_spec, declared_spec
from taskyard.tasks.unfit_options import LONGEST_SECONDS

OPTIONS = ("idempotency_key", "idempotency_scope", "idempotency_ttl", "on_duplicate", "on_state_loss")
ON_DUPLICATE = ("snooze", "skip")
ON_STATE_LOSS = ("refuse", "run")


def check_declaration(task: Any) -> None:
    """Refuse options that contradict each other or could never work.

    Raises:
        TaskDefinitionError: names the option, its value and what to write instead.
    """
    if not hasattr(task, "idempotency_scope"):
        _check_plain_task(task)
        return
    key = declared_spec(task, "idempotency_key")
    if key is None or key == "":
        raise TaskDefinitionError(
            f"Task {task.name!r} has base=IdempotentTask and idempotency_key={key!r}. Say what makes two "
            "calls the same work: the name of an argument, a template like 'charge:{order_id}', or "
            "a function."
        )
    check_key_spec(task, "idempotency_key", key)
    _check_scope(task)
    ttl_seconds(task)
    _check_choice(task, "on_duplicate", ON_DUPLICATE)
    if task.on_state_loss is not None:
        _check_choice(task, "on_state_loss", ON_STATE_LOSS)


def ttl_seconds(task: Any) -> float | None:
    """Return how long a key is remembered; None where the setting counts.

    Raises:
        TaskDefinitionError: the option is no time.
    """
    ttl = task.idempotency_ttl
    seconds = ttl.total_seconds() if isinstance(ttl, timedelta) else ttl
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if seconds is not None and not (is_number and 0 < seconds <= LONGEST_SECONDS):
        raise TaskDefinitionError(
            f"Task {task.name!r} has idempotency_ttl={ttl!r}. Give seconds above 0 or a timedelta, up to "
            "10 years: how long a key is remembered."
        )
    return seconds


def _check_plain_task(task: Any) -> None:
    # a class of its own that has them without the base; for decorated tasks they are unknown options
    for option in OPTIONS:
        # `on_state_loss` is an option of singletons, too
        if option != "on_state_loss" and hasattr(task, option):
            raise TaskDefinitionError(
                f"Task {task.name!r} has {option}={declared_spec(task, option)!r}, which is an option of "
                "IdempotentTask. Give base=IdempotentTask, too."
            )


def _check_scope(task: Any) -> None:
    scope = task.idempotency_scope
    if scope is not None and (not isinstance(scope, str) or not scope):
        raise TaskDefinitionError(
            f"Task {task.name!r} has idempotency_scope={scope!r}. Give a text that tasks with the same keys "
            "share, or leave it out for the task's own name."
        )


def _check_choice(task: Any, option: str, choices: Sequence[str]) -> None:
    value = getattr(task, option)
    if value not in choices:
        suggestion = did_you_mean(value, choices) if isinstance(value, str) else ""
        raise TaskDefinitionError(
            f"Task {task.name!r} has {option}={value!r}.{suggestion} Use {' or '.join(map(repr, choices))}."
        )
