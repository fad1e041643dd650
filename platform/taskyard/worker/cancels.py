"""What a worker's parent process does about cancelled tasks: mark those that wait, stop those that run."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Any

import structlog
from celery import signals
from celery.concurrency.prefork import TaskPool as PreforkPool
from celery.worker import state
from redis.exceptions import RedisError

from taskyard.tasks import tracked_rows, tracking
from taskyard.tasks.cancelling import MARK, call_hook
from taskyard.tasks.run_log import run_fields
from taskyard.transport.cancels import Ask, HolderAnswer

log = structlog.stdlib.get_logger("taskyard.worker")

# A run that has not quite begun when its time to obey is over gets so much longer.
AGAIN_SECONDS = 1.0


def attach(consumer: Any, leases: Any) -> None:
    """Have the leases tell this worker what is cancelled."""
    leases.cancelled.on_new = lambda ask: _on_new(consumer, leases.cancelled, ask)


def mark_if_cancelled(request: Any, *, is_starting: bool) -> None:
    """Mark the request of a cancelled task, so that its run ends before it begins.

    It goes through a pool process all the same: what there is to do at its end (its state, its row, its
    chord, its locks) is done there, and may take its time.

    Args:
        is_starting: the next step is to begin it, so what is known must be fresh.
    """
    leases = getattr(getattr(request.message, "channel", None), "leases", None)
    if leases is None:  # another transport
        return
    is_cancelled = leases.cancelled.holds(request.id) if is_starting else request.id in leases.cancelled
    if not is_cancelled or MARK in request.request_dict:
        return
    note = leases.cancelled.note_of(request.id)
    request.request_dict[MARK] = {"by": note.by, "reason": note.reason}
    _answer(leases.cancelled, leases.ask, [(request.id, HolderAnswer(request.hostname, is_running=False))])


def announce(request: Any) -> None:
    """Tell Flower and the receivers of Celery's signal that a run has ended as cancelled."""
    request.send_event("task-revoked", terminated=False, signum=None, expired=False)
    signals.task_revoked.send(
        request.task, request=request._context, terminated=False, signum=None, expired=False
    )


def end_killed(request: Any) -> None:
    """End a cancelled task that was killed at its hard time limit: it is cancelled all the same."""
    if request._already_revoked:
        return
    log.warning("cancelled task killed at its hard time limit", **run_fields(request.task, request._context))
    request._announce_revoked("cancelled", True, "SIGKILL", False)
    note_end(request, "cancelled")
    call_hook(request.task, "killed at its hard time limit", request.id, request.args, request.kwargs)


def note_end(request: Any, state_: str) -> None:
    """Write how a task has ended into its row, where its run did not: killed, or no long task."""
    if not (request.is_being_cancelled or tracking.is_needed(request.task)):
        return
    try:
        tracked_rows.end_running(request.id, state_, at=request.app.taskyard.clock.now())
    except Exception as error:
        log.warning(
            "the end of the task is not recorded",
            task_id=request.id,
            error=f"{type(error).__name__}: {error}",
        )


def _on_new(consumer: Any, cancelled: Any, ask: Ask) -> None:
    held = [request for request in tuple(state.requests.values()) if request.id in cancelled]
    answers = [
        (request.id, HolderAnswer(consumer.hostname, is_running=_is_started(request))) for request in held
    ]
    _answer(cancelled, ask, answers)
    for request in held:
        if _is_started(request) and not request.is_being_cancelled:
            request.is_being_cancelled = True
            log.info("task is cancelled while it runs", **run_fields(request.task, request._context))
            grace = consumer.app.settings.cancel_grace_seconds
            consumer.timer.call_after(grace, _stop, (consumer, request))
            consumer.timer.call_after(AGAIN_SECONDS, _follow, (consumer, request))


def _answer(cancelled: Any, ask: Ask, answers: list[tuple[str, HolderAnswer]]) -> None:
    # only for whoever waits for it
    with contextlib.suppress(RedisError, OSError):
        cancelled.answer(ask, answers)


def _is_started(request: Any) -> bool:
    """Return whether the run is with a pool process, or on its way to one and beyond recall."""
    return MARK not in request.request_dict and (
        request.time_start is not None or request._apply_result is not None
    )


def _follow(consumer: Any, request: Any) -> None:
    """Write that a cancelled task has come to its own end before it noticed."""
    if request in state.reserved_requests:
        consumer.timer.call_after(AGAIN_SECONDS, _follow, (consumer, request))
    elif request.id in state.successful_requests:
        note_end(request, "succeeded")


def _stop(consumer: Any, request: Any) -> None:
    """The time to obey is over: the run gets its soft time limit, where the pool has one."""
    if request not in state.active_requests:
        if request in state.reserved_requests:
            consumer.timer.call_after(AGAIN_SECONDS, _stop, (consumer, request))
        return
    fields = run_fields(request.task, request._context)
    if not isinstance(consumer.pool, PreforkPool):
        log.warning("cancelled task goes on: this pool cannot stop it", **fields)
        return
    process, _ = consumer.pool._pool._process_by_pid(request.worker_pid)
    if process is None:
        return
    log.warning("cancelled task goes on: it gets its soft time limit", **fields)
    with contextlib.suppress(ProcessLookupError):
        os.kill(request.worker_pid, signal.SIGUSR1)
