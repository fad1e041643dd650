"""What an idempotent task has been replaced with: does it need the same key?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from celery.canvas import maybe_signature

from taskyard.errors import TaskyardError
from taskyard.tasks.idempotency import key_of


def may_have_key(signature: Any, task: Any) -> bool:
    """Return whether a part of a canvas claims the key of the run of the task that it replaces.

    Such a part must find the key free: done, it would not run. So does one whose key only its run will know.
    """
    return any(_has_key(part, task) for part in _parts(signature))


def _has_key(part: Any, task: Any) -> bool:
    other = task.app.tasks.get(part.task)
    scope = getattr(other, "idempotency_scope", None) or part.task
    if getattr(other, "idempotency_key", None) is None or scope != (task.idempotency_scope or task.name):
        return False
    try:
        return key_of(other, part.args or (), part.kwargs or {}) == task.claim.key
    except (TaskyardError, TypeError):
        # the result of the part before it is missing still
        return True


def _parts(given: Any) -> Iterator[Any]:
    """Yield the plain signatures of a canvas."""
    signature = maybe_signature(given)
    tasks, body = getattr(signature, "tasks", None), getattr(signature, "body", None)
    if tasks is None:
        yield signature
        return
    # the header of a chord is a group, which is a dict
    for part in [tasks] if isinstance(tasks, dict) else tasks:
        yield from _parts(part)
    if body is not None:
        yield from _parts(body)
