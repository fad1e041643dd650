"""Result backends that a publish never waits for, and that store no marked argument.

Stock Celery subscribes to the result when the task is published, over another connection: with the result
store away, `.delay()` hangs, and every result nobody asks for leaks (c#4296, c#6963). Here the subscription
is made when somebody waits for the result.
"""

from __future__ import annotations

from typing import Any

from celery import states
from celery.backends import redis as celery_redis

from taskyard.tasks import canvas_parts
from taskyard.tasks.scrubbing import is_needed as has_marks
from taskyard.tasks.scrubbing import scrubber_of


class _Redacting:
    """Stores what may be shown of a call, for tasks that mark some of their arguments."""

    def _get_result_meta(self, result: Any, state: str, traceback: Any, request: Any, **kwargs: Any) -> Any:
        meta = super()._get_result_meta(result, state, traceback, request, **kwargs)  # type: ignore[misc]
        name = getattr(request, "task", None)
        if isinstance(name, str):
            self._redact(meta, name, request)
        return meta

    def _redact(self, meta: dict[str, Any], name: str, request: Any) -> None:
        args, kwargs = request.args or (), request.kwargs or {}
        app: Any = self.app  # type: ignore[attr-defined]
        task = app.tasks.get(name)
        is_marked = task is None or has_marks(task)
        if "kwargs" in meta and (is_marked or canvas_parts.may_hold_signatures(name, args, kwargs)):
            # of a step that was never published, because the one before it has failed, there is a signature
            is_partial = getattr(request, "immutable", None) is False
            meta["args"], meta["kwargs"] = canvas_parts.shown_call(
                name, args, kwargs, app, is_partial=is_partial
            )
        if task is not None and is_marked and meta["status"] in states.EXCEPTION_STATES:
            scrubber = scrubber_of(task, args, kwargs)
            meta["result"], meta["traceback"] = map(scrubber.value, (meta["result"], meta["traceback"]))


class _Lazy:
    """Does for a result that is ignored what there is to do: nothing."""

    def on_task_call(self, producer: Any, task_id: str) -> None:
        """Subscribe at the first wait, not at the publish."""

    def remove_pending_result(self, result: Any) -> Any:
        """Celery's hook at the end of each result object; nobody has waited for one that is ignored."""
        return result if getattr(result, "ignored", False) else super().remove_pending_result(result)  # type: ignore[misc]


class RedisBackend(_Lazy, _Redacting, celery_redis.RedisBackend):
    """Results on Redis or Valkey."""


class SentinelBackend(_Lazy, _Redacting, celery_redis.SentinelBackend):
    """Results on a primary found through Sentinel."""
