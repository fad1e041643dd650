"""What events, logs and Flower show of a call's arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from taskyard.tasks import canvas_parts
from taskyard.tasks.redaction import representation


def shown_representations(
    task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[str, str] | None:
    """Return the texts of positional and keyword arguments; None where they may be shown as they are."""
    if not getattr(task, "redact", None) and not canvas_parts.may_hold_signatures(task.name, args, kwargs):
        return None
    shown_args, shown_kwargs = canvas_parts.shown_call(task.name, args, kwargs, task.app)
    return representation(tuple(shown_args)), representation(shown_kwargs)
