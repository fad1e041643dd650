"""A request that cannot be given to the pool: a dead letter, and the worker goes on.

What a message holds can be such that no check finds it and the pool cannot take it (nested too deeply to be
pickled, for instance). Stock Celery takes the error for one of the worker, which ends; the message is put
back, and ends the next worker: one message stops the fleet.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from celery.worker import state


def guard_execution(consumer: Any) -> None:
    """Have the worker keep a request as a dead letter which its pool does not take."""
    controller = consumer.controller
    execute: Callable[[Any], None] | None = getattr(controller, "_process_task", None)
    if execute is None:
        return

    def process(request: Any) -> None:
        try:
            execute(request)
        except Exception as error:
            if isinstance(error, consumer.connection_errors) and not isinstance(error, LookupError):
                raise
            _forget(consumer.pool, request)
            state.task_ready(request)
            release = getattr(controller, "_quick_release", None)
            if release is not None:
                release()
            consumer.on_invalid_task(None, request.message, error)

    if consumer.on_task_request == execute:
        # a pool without a free-process count is asked directly
        consumer.on_task_request = process
    controller._process_task = process


def _forget(pool: Any, request: Any) -> None:
    """Drop what the pool has noted of a request before it failed: it would wait for its end for ever."""
    cache = getattr(getattr(pool, "_pool", None), "_cache", None) or {}
    for result in tuple(cache.values()):
        if getattr(result, "correlation_id", None) == request.id:
            with contextlib.suppress(Exception):
                result.discard()
