"""Result backends that a publish never waits for, and that store no marked argument.

Stock Celery subscribes to the result when the task is published, over another connection: with the result
store away, `.delay()` hangs, and every result nobody asks for leaks (c#4296, c#6963). Here the subscription
is made when somebody waits for the result.
"""

from __future__ import annotations

from typing import Any

from celery.backends import redis as celery_redis

from taskyard.tasks.stored_results import shown_arguments, shown_outcome


class _Redacting:
    """Stores what may be shown of a call, for tasks that mark some of their arguments."""

    def _get_result_meta(self, result: Any, state: str, traceback: Any, request: Any, **kwargs: Any) -> Any:
        app: Any = self.app  # type: ignore[attr-defined]
        result, traceback = shown_outcome(request, app, state, result, traceback)
        meta = super()._get_result_meta(result, state, traceback, request, **kwargs)  # type: ignore[misc]
        shown = shown_arguments(request, app)
        if shown is not None and "kwargs" in meta:
            meta["args"], meta["kwargs"] = shown
        return meta


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
