"""The layer that decides what a run's end means: success, retry, snooze, cancel, or a final failure.

A final failure is recorded in the dead letter store before Celery acknowledges the message. If the store does
not take it, the message is put back: it is never acknowledged without a trace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import structlog
from celery.exceptions import Ignore, MaxRetriesExceededError, Reject, Retry

from taskyard.clock import SYSTEM_CLOCK
from taskyard.errors import OutOfMemoryError
from taskyard.outcomes import Cancel, Snooze
from taskyard.tasks import failures
from taskyard.tasks.publish import FIRST_PUBLISHED_AT
from taskyard.tasks.run_context import header_of
from taskyard.tasks.traceback import task_traceback

if TYPE_CHECKING:
    from taskyard.tasks.run import Run

log = structlog.stdlib.get_logger("taskyard.task")


def settle_outcome(run: Run, call_next: Callable[[], Any]) -> Any:
    try:
        return call_next()
    except (Retry, Ignore, Reject):
        raise
    except Snooze as snooze:
        _snooze(run, snooze)
    except Cancel as cancel:
        _cancel(run, cancel)
    except Exception as error:
        _retry_or_fail(run, error)


def age_seconds(request: Any) -> float:
    """Return the time since the task was first published; 0 for a message that does not say."""
    first = header_of(request, FIRST_PUBLISHED_AT)
    return 0.0 if first is None else max(0.0, SYSTEM_CLOCK.now().timestamp() - float(first))


def _retry_or_fail(run: Run, error: Exception) -> None:
    task, request = run.task, run.request
    if isinstance(error, MaxRetriesExceededError):
        _fail(run, error, "retries_exhausted")
    decision = task.retry_policy.decide(
        error, retries=request.retries or 0, age_seconds=age_seconds(request), now=SYSTEM_CLOCK.now()
    )
    if not decision.is_retry:
        _fail(run, error, decision.reason)
    # The policy has decided: Celery's own bound must not decide again, and differently.
    raise task.retry(exc=error, countdown=decision.delay_seconds, max_retries=(request.retries or 0) + 1)


def _fail(run: Run, error: Exception, reason: str) -> None:
    """Record the final failure, then let the exception end the run."""
    if run.task.on_exhausted == "drop" and reason != "not_retryable":
        log.warning("task dropped", reason=reason, error=type(error).__name__)
        raise error
    failure = failures.from_run(run.task, run.request, run.args, run.kwargs, error=error, reason=reason)
    try:
        failures.record(failure)
    except Exception as store_error:
        log.exception("dead letter not stored, the message is put back", reason=reason)
        raise Reject(store_error, requeue=True) from error
    if isinstance(error, MemoryError):
        # Celery lets it through to the parent as a lost process, which would run the task again.
        raise OutOfMemoryError(str(error)) from error.with_traceback(task_traceback(error))
    raise error


def _snooze(run: Run, snooze: Snooze) -> None:
    task, request = run.task, run.request
    if age_seconds(request) + snooze.delay_seconds > task.app.settings.snooze_max_age_seconds:
        _fail(run, snooze, "snoozed_too_long")
    signature = task.signature_from_request(
        request, countdown=snooze.delay_seconds, retries=request.retries or 0
    )
    if not request.is_eager:
        try:
            signature.apply_async(on_commit=False)
        except Exception as error:
            raise Reject(error, requeue=True) from error
    outcome = Retry(message=str(snooze), when=snooze.delay_seconds, is_eager=request.is_eager, sig=signature)
    outcome.snoozed = True
    raise outcome


def _cancel(run: Run, cancel: Cancel) -> None:
    task, request = run.task, run.request
    if not request.is_eager:
        ignored = task.ignore_result if request.ignore_result is None else request.ignore_result
        # also tells a chord that this part will not come
        task.backend.mark_as_revoked(request.id, str(cancel), request=request, store_result=not ignored)
    raise Ignore(str(cancel))
