"""What a worker and its leases have to tell each other (see `taskyard.transport.process_leases`)."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import structlog
from celery.concurrency.solo import TaskPool as SoloPool
from celery.worker import state

from taskyard.transport.process_leases import all_process_leases
from taskyard.worker import cancels

log = structlog.stdlib.get_logger("taskyard.worker")

# How long a payload that is half written to a child may take to be written in full.
WRITE_SECONDS = 5.0


def attach(consumer: Any) -> None:
    """Tell the leases of this process whose they are; after each connection."""
    inline = isinstance(consumer.pool, SoloPool)
    if all_process_leases() and consumer.app.conf.worker_cancel_long_running_tasks_on_connection_loss:
        # It would stop tasks that nobody else runs.
        log.warning("worker_cancel_long_running_tasks_on_connection_loss is off: leases outlive connections")
        consumer.app.conf.worker_cancel_long_running_tasks_on_connection_loss = False
    for leases in all_process_leases():
        leases.begin()
        leases.runs_inline = _is_task_within_its_limit if inline else _never
        cancels.attach(consumer, leases)
        leases.on_lost = lambda lease, tags: _forget_waiting(consumer, lease, frozenset(tags))


def are_kept() -> bool:
    """Return whether what this worker has reserved survives a cut connection."""
    return any(leases.is_kept for leases in all_process_leases())


def begin_stop() -> None:
    for leases in all_process_leases():
        leases.begin_stop()


def abandon() -> None:
    for leases in all_process_leases():
        leases.abandon()


def end() -> None:
    for leases in all_process_leases():
        leases.end()


def _never() -> bool:
    return False


def _is_task_within_its_limit() -> bool:
    """Whether a task runs in this thread's loop, and not for longer than its hard limit.

    A solo pool can't enforce the limit; a task past it is taken for hung, and runs again elsewhere.
    """
    now = time.time()  # noqa: TID251 - Celery's time_start is wall-clock time
    for request in tuple(state.active_requests):
        limit = (request.time_limits or (None, None))[0]
        if request.time_start and (limit is None or now - request.time_start < limit):
            return True
    return False


def _forget_waiting(consumer: Any, lease: Any, tags: frozenset[int]) -> None:
    """Drop the tasks that wait for a process: another worker has them now."""
    semaphore = getattr(consumer.controller, "semaphore", None)
    if semaphore is None:
        return
    dropped = 0
    for waiting in tuple(semaphore._waiting):
        requests = [value for value in waiting[1] if hasattr(value, "message")]
        if any(_is_of(request.message, lease, tags) for request in requests):
            with contextlib.suppress(ValueError):
                semaphore._waiting.remove(waiting)
            for request in requests:
                state.task_ready(request)
            dropped += len(requests)
    if dropped:
        log.warning("tasks dropped: their lease has ended and another worker has them", tasks=dropped)


def _is_of(message: Any, lease: Any, tags: frozenset[int]) -> bool:
    return getattr(message.channel, "lease", None) is lease and message.delivery_tag in tags


def finish_writes(pool: Any) -> None:
    """Finish what is half written to the children of a prefork pool.

    The event loop has just forgotten who was writing; a child that never gets the rest of its message would
    wait for ever. What is not begun stays in the pool's buffer.
    """
    processes = getattr(pool, "_pool", None)
    writers = getattr(processes, "_active_writers", None)
    if not writers:
        return
    deadline = time.monotonic() + WRITE_SECONDS
    pause = 0.05
    while writers and time.monotonic() < deadline:
        for writer in tuple(writers):
            try:
                next(writer)
            except (StopIteration, OSError, EOFError):
                writers.discard(writer)
        time.sleep(pause)
