"""The worker-side request: the queue's limits, the bound on lost processes, dead letters before the ack."""

from __future__ import annotations

from typing import Any

import structlog
from billiard.einfo import ExceptionWithTraceback
from billiard.exceptions import TimeLimitExceeded, WorkerLostError
from celery.worker import state
from celery.worker.request import Request as CeleryRequest

from taskyard.correlation import HEADER as CORRELATION_HEADER
from taskyard.correlation import correlated
from taskyard.tasks import failures
from taskyard.tasks.run_log import run_fields

log = structlog.stdlib.get_logger("taskyard.worker")

# Message header: how often the process of this task has died. Kept over retries and redelivery by a retry.
LOSSES_HEADER = "worker_losses"


class Request(CeleryRequest):
    """One received message on its way through the pool."""

    time_limits: tuple[float | None, float | None] | None
    _has_dead_letter = False

    def __init__(self, message: Any, **kwargs: Any) -> None:
        super().__init__(message, **kwargs)
        self.time_limits = self._limits(*(self.time_limits or (None, None)))
        self._request_dict["timelimit"] = list(self.time_limits)
        # Celery puts the message property of this name here, which is the task id; the header is ours.
        self._request_dict["correlation_id"] = (message.headers or {}).get(CORRELATION_HEADER) or self.id

    def _limits(self, hard: float | None, soft: float | None) -> tuple[float | None, float | None]:
        """Return (hard, soft): those of the message, else of the task, else of the queue it came from."""
        table = self._app.settings.queue_table
        spec = table.get(self.delivery_info.get("routing_key") or "") or table[table.default]
        task = self._task
        stated_hard = _first(hard, task.time_limit)
        stated_soft = _first(soft, task.soft_time_limit)
        hard = _first(stated_hard, spec.time_limit_seconds)
        soft = _first(stated_soft, spec.soft_time_limit_seconds)
        if stated_soft is None and soft is not None and hard is not None and soft >= hard:
            # only the hard limit was stated, below the queue's soft one
            soft = hard * 0.9
        return hard, soft

    def info(self, safe: bool = False) -> dict[str, Any]:
        """Return what `inspect` shows; marked arguments are masked."""
        shown = super().info(safe=safe)
        if getattr(self._task, "redact", None):
            shown["args"], shown["kwargs"] = self._argsrepr, self._kwargsrepr
        return shown

    def on_timeout(self, soft: bool, timeout: float) -> None:
        """A limit has passed. The pool reports a hard one as a failure too, first or second."""
        if not soft and not self._keep_timeout(TimeLimitExceeded(timeout)):
            return
        super().on_timeout(soft, timeout)

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> None:
        error = _unwrap(exc_info.exception)
        if isinstance(error, MemoryError):
            # Stock Celery raises it again in the parent, which ends the worker.
            error = WorkerLostError(f"The task ran out of memory: {error}")
            exc_info.exception = error
        if isinstance(error, TimeLimitExceeded) and not self._keep_timeout(error):
            return
        if self._is_lost_process(error) and not self._keep_loss(error):
            return
        super().on_failure(exc_info, send_failed_event=send_failed_event, return_ok=return_ok)

    def _keep_timeout(self, error: TimeLimitExceeded) -> bool:
        """Make the killed run a dead letter, once. Return False if the message was put back instead."""
        if state.should_terminate or self._has_dead_letter:
            return True
        self._log_end("task killed at its hard time limit", limit_seconds=error.args[0])
        return self._record(error, "time_limit")

    def _keep_loss(self, error: BaseException) -> bool:
        """Count the lost process; past the bound, make the task a dead letter. Return as `_keep_timeout`."""
        losses = self._count_loss()
        if losses <= self._app.settings.max_worker_losses:
            self._log_end(
                "task process lost, the task runs again",
                losses=losses,
                error=f"{type(error).__name__}: {error}",
            )
            return True
        self._log_end("task process lost too often", losses=losses, error=f"{type(error).__name__}: {error}")
        return self._record(error, "poison")

    def _is_lost_process(self, error: BaseException) -> bool:
        if self._already_cancelled or self._already_revoked:
            return False
        return isinstance(error, (WorkerLostError, SystemExit, KeyboardInterrupt))

    def _count_loss(self) -> int:
        headers = dict(self._context.headers or {})
        headers[LOSSES_HEADER] = int(headers.get(LOSSES_HEADER, 0)) + 1
        self._context.headers = headers
        return int(headers[LOSSES_HEADER])

    def _retry_worker_lost(self, exc: BaseException, exc_info: Any) -> bool:
        """Celery's hook: publish the task again. The bound is on its losses, not on its retries."""
        losses = int(self._context.headers[LOSSES_HEADER])
        if losses > self._app.settings.max_worker_losses:
            return False
        task = self._task
        # what Celery uses as the countdown; the first run after a loss comes soon, later ones wait
        task.default_retry_delay, usual = (
            task.retry_policy.delay_seconds(losses) / 2,
            task.default_retry_delay,
        )
        try:
            with correlated(self.correlation_id):
                return super()._retry_worker_lost(exc, exc_info)
        finally:
            task.default_retry_delay = usual

    def _record(self, error: BaseException, reason: str) -> bool:
        """Write the dead letter; if that fails, put the message back and return False."""
        try:
            failures.record(
                failures.from_run(
                    self._task, self._context, self._args, self._kwargs, error=error, reason=reason
                )
            )
        except Exception:
            log.exception("dead letter not stored, the message is put back", task_id=self.id, reason=reason)
            self.reject(requeue=True)
            return False
        self._has_dead_letter = True
        return True

    def _log_end(self, event: str, **fields: Any) -> None:
        log.error(event, **run_fields(self._task, self._context), **fields)


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _unwrap(error: BaseException) -> BaseException:
    return error.exc if isinstance(error, ExceptionWithTraceback) else error
