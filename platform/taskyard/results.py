"""Result backends that a publish never waits for.

Stock Celery subscribes to the result when the task is published, over another connection: with the result
store away, `.delay()` hangs, and every result nobody asks for leaks (c#4296, c#6963). Here the subscription
is made when somebody waits for the result.
"""

from __future__ import annotations

from typing import Any

from celery.backends import redis as celery_redis


class RedisBackend(celery_redis.RedisBackend):
    """Results on Redis or Valkey."""

    def on_task_call(self, producer: Any, task_id: str) -> None:
        """Subscribe at the first wait, not at the publish."""


class SentinelBackend(celery_redis.SentinelBackend):
    """Results on a primary found through Sentinel."""

    def on_task_call(self, producer: Any, task_id: str) -> None:
        """Subscribe at the first wait, not at the publish."""
