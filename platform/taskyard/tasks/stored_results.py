"""What a result backend stores of a call: nothing that its task has marked."""

from __future__ import annotations

from typing import Any

from celery import states

from taskyard.tasks import canvas_parts
from taskyard.tasks.scrubbing import is_needed as has_marks
from taskyard.tasks.scrubbing import scrubber_of


def shown_arguments(request: Any, app: Any) -> tuple[list[Any], dict[str, Any]] | None:
    """Return the arguments as they may be stored; None where that is as they are."""
    name = getattr(request, "task", None)
    if not isinstance(name, str):
        return None
    args, kwargs = request.args or (), request.kwargs or {}
    task = app.tasks.get(name)
    if task is not None and not has_marks(task) and not canvas_parts.may_hold_signatures(name, args, kwargs):
        return None
    # Of a step that was never published, because the one before it has failed, there is only a signature.
    is_partial = getattr(request, "immutable", None) is False
    return canvas_parts.shown_call(name, args, kwargs, app, is_partial=is_partial)


def shown_outcome(request: Any, app: Any, state: str, result: Any, traceback: Any) -> tuple[Any, Any]:
    """Return result and traceback as they may be stored: those of a success are what the task gives away."""
    task = app.tasks.get(getattr(request, "task", None))
    if state not in states.EXCEPTION_STATES or task is None or not has_marks(task):
        return result, traceback
    scrubber = scrubber_of(task, request.args or (), request.kwargs or {})
    return scrubber.value(result), scrubber.value(traceback)
