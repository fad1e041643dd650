"""The worker-side request: the queue's limits, the bound on lost processes, dead letters before the ack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog
from billiard.einfo import ExceptionWithTraceback
from billiard.exceptions import TimeLimitExceeded, WorkerLostError
from celery.exceptions import InvalidTaskError
from celery.worker import state
from celery.worker.request import Request as CeleryRequest

from taskyard.correlation import HEADER as CORRELATION_HEADER
from taskyard.tasks import failures
from taskyard.tasks.canvas_parts import PUBLISHED_LIMITS
from taskyard.tasks.outcome import Cancelled
from taskyard.tasks.publish import is_broker_failure
from taskyard.tasks.representations import shown_representations
from taskyard.tasks.run_log import run_fields
from taskyard.tasks.scrubbing import is_needed as has_marks
from taskyard.tasks.scrubbing import scrubber_of
from taskyard.tasks.store_outage import OUTAGE
from taskyard.tasks.unique_run import free_ended
from taskyard.worker.cancels import announce, end_killed, mark_if_cancelled, note_end
from taskyard.worker.losses import announce_again, count_loss, publish_again, publish_later

log = structlog.stdlib.get_logger("taskyard.worker")


class Request(CeleryRequest):
    """One received message on its way through the pool."""

    time_limits: tuple[float | None, float | None] | None
    _has_dead_letter = False
    # The store was away: the call is published again. The pool reports some ends twice.
    _runs_later = False
    # It was cancelled while it ran.
    is_being_cancelled = False

    def __init__(self, message: Any, **kwargs: Any) -> None:
        super().__init__(message, **kwargs)
        check_headers(self._request_dict)
        published_limits = self.time_limits or (None, None)
        self.time_limits = self._limits(*published_limits)
        self._request_dict["timelimit"] = list(self.time_limits)
        self._request_dict["properties"] = {**(message.properties or {}), PUBLISHED_LIMITS: published_limits}
        # Celery puts the message property of this name here, which is the task id; the header is ours.
        self._request_dict["correlation_id"] = (message.headers or {}).get(CORRELATION_HEADER) or self.id
        self._show_nothing_marked()
        mark_if_cancelled(self, is_starting=False)

    def _show_nothing_marked(self) -> None:
        """Replace what the message says for people: whoever has published it may not know what is marked."""
        shown = shown_representations(self._task, self._args, self._kwargs)
        if shown is not None:
            self._argsrepr, self._kwargsrepr = shown
            self._request_dict["argsrepr"], self._request_dict["kwargsrepr"] = shown

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
        if has_marks(self._task):
            shown["args"], shown["kwargs"] = self._argsrepr, self._kwargsrepr
        return shown

    def send_event(self, type: str, **fields: Any) -> None:
        """Send a monitoring event; a result or an error in it shows no marked argument."""
        if has_marks(self._task):
            scrub = scrubber_of(self._task, self._args, self._kwargs).text
            fields = {name: scrub(text) if isinstance(text, str) else text for name, text in fields.items()}
        super().send_event(type, **fields)

    def revoked(self) -> bool:
        """Celery's hook before a message is received and before it goes to the pool."""
        if super().revoked():
            return True
        mark_if_cancelled(self, is_starting=True)
        return False

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
        if isinstance(error, Cancelled):
            announce(self)
        if isinstance(error, TimeLimitExceeded) and not self._keep_timeout(error):
            return
        if self._is_lost_process(error) and not self._keep_loss(error, exc_info):
            return
        super().on_failure(exc_info, send_failed_event=send_failed_event, return_ok=return_ok)

    def _keep_timeout(self, error: TimeLimitExceeded) -> bool:
        """Make the killed run a dead letter, once. Return False if it runs again instead."""
        if self._runs_later:
            return False
        if state.should_terminate or self._has_dead_letter:
            return True
        if self.is_being_cancelled:
            end_killed(self)
            return False
        self._log_end("task killed at its hard time limit", limit_seconds=error.args[0])
        return self._record(error, "time_limit")

    def _keep_loss(self, error: BaseException, exc_info: Any) -> bool:
        """Have the task run again; past the bound, make it a dead letter. Return True if this is its end."""
        losses = count_loss(self._context)
        shown = {"losses": losses, "error": f"{type(error).__name__}: {error}"}
        if losses <= self._app.settings.max_worker_losses:
            self._log_end("task process lost, the task runs again", **shown)
            if self._run_again(error, exc_info, losses):
                return False
        else:
            self._log_end("task process lost too often", **shown)
        return self._record(error, "poison")

    def _run_again(self, error: BaseException, exc_info: Any, losses: int) -> bool:
        """Publish the task again. Return False if that will never succeed."""
        try:
            delay_seconds = publish_again(self, losses, error)
        except Exception as publish_error:
            log.exception("the task is not published again", task_id=self.id)
            if not is_broker_failure(publish_error):
                return False
            self._put_back()
            return True
        state.task_ready(self)
        self.acknowledge()
        announce_again(self, error, exc_info, delay_seconds)
        return True

    def _run_later(self, error: BaseException) -> None:
        """Have the task run again when the dead letter store may be back; put back, it would run at once."""
        try:
            publish_later(self, error, delay_seconds=OUTAGE.pause_seconds())
        except Exception:
            log.exception("the task is not published again, it is put back", task_id=self.id)
            self._put_back()
            return
        self._runs_later = True
        state.task_ready(self)
        self.acknowledge()

    def _put_back(self) -> None:
        state.task_ready(self)
        self.reject(requeue=True)

    def _is_lost_process(self, error: BaseException) -> bool:
        if self._already_cancelled or self._already_revoked:
            return False
        # What is no Exception (SystemExit, a panic in C code) has left the run without an end of its own.
        return isinstance(error, WorkerLostError) or not isinstance(error, Exception)

    def _retry_worker_lost(self, *_: Any) -> bool:
        """Celery's hook: `_keep_loss` has decided, and this run's failure is final."""
        return False

    def _record(self, error: BaseException, reason: str) -> bool:
        """Write the dead letter; if that fails, have the task run again and return False."""
        try:
            failures.record(
                failures.from_run(
                    self._task, self._context, self._args, self._kwargs, error=error, reason=reason
                )
            )
        except Exception:
            self._run_later(error)
            return False
        self._has_dead_letter = True
        free_ended(self._app, self._context)
        note_end(self, "failed")
        return True

    def _announce_revoked(self, reason: str, terminated: bool, signum: Any, expired: bool) -> None:
        """Celery's hook for a task that ends without a run: revoked, or too old when it came."""
        super()._announce_revoked(reason, terminated, signum, expired)
        free_ended(self._app, self._context)

    def _log_end(self, event: str, **fields: Any) -> None:
        log.error(event, **run_fields(self._task, self._context), **fields)


def check_headers(headers: Mapping[str, Any]) -> None:
    """Refuse a message whose headers would break the parent or the run, wherever they are used first.

    Raises:
        InvalidTaskError: names the header; the consumer makes the message a dead letter.
    """
    limits = headers.get("timelimit") or (None, None)
    if not (isinstance(limits, (list, tuple)) and len(limits) == 2 and all(map(_is_limit, limits))):
        raise InvalidTaskError(f"the header timelimit is {limits!r}, not two numbers or null")
    if not isinstance(headers.get("retries") or 0, int):
        raise InvalidTaskError(f"the header retries is {headers['retries']!r}, not a number")
    if not isinstance(headers["id"], str):
        raise InvalidTaskError(f"the header id is {headers['id']!r}, not a text")
    stamps = headers.get("stamped_headers")
    if stamps is not None and not (
        isinstance(stamps, (list, tuple)) and all(isinstance(s, str) for s in stamps)
    ):
        raise InvalidTaskError(f"the header stamped_headers is {stamps!r}, not a list of texts")
    if not isinstance(headers.get("stamps") or {}, Mapping):
        raise InvalidTaskError(f"the header stamps is {headers['stamps']!r}, not an object")
    if not isinstance(headers["args"], (list, tuple)) or not isinstance(headers["kwargs"], dict):
        raise InvalidTaskError("the arguments are not a list and an object")


def _is_limit(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and value > 0)


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _unwrap(error: BaseException) -> BaseException:
    return error.exc if isinstance(error, ExceptionWithTraceback) else error
