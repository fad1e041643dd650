"""Deduplicated publish: of equal calls within a time, one is published."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def is_needed(task: Any, options: dict[str, Any]) -> bool:
    """Return whether this publish is to be compared with others."""
    return False


def publish_unique(
    app: Any,
    task: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    task_id: str,
    options: dict[str, Any],
    send: Callable[[dict[str, Any]], Any],
) -> Any:
    """Publish with `send(options)`, or return the result object of the call that this one repeats."""
    return send(options)


def check_declaration(task: Any) -> None:
    """Refuse options that contradict each other or could never work.

    Raises:
        TaskDefinitionError: names the option, its value and what to write instead.
    """
