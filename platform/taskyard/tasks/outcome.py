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
from taskyard.errors import ArgumentError, OutOfMemoryError, RunError, TaskDefinitionError
from taskyard.outcomes import Cancel, Snooze
from taskyard.tasks import attempts, cancelling, failures
from taskyard.tasks.publish import FIRST_PUBLISHED_AT, is_broker_failure
from taskyard.tasks.run_context import number_of
from taskyard.tasks.scrubbing import true_error
from taskyard.tasks.signature_fit import misfit
from taskyard.tasks.store_outage import OUTAGE
from taskyard.tasks.traceback import error_text, task_traceback

if TYPE_CHECKING:
    from taskyard.tasks.run import Run

log = structlog.stdlib.get_logger("taskyard.task")

# What is never dropped: `on_exhausted` is about retries that have ended, this needs a person.
_NEVER_DROPPED = ("not_retryable", "wrong_signature")
# Set on the request of a run whose failure is recorded, or dropped on purpose.
_SETTLED = "failure_is_settled"


class Cancelled(Ignore):
    """What Celery gets to see of a cancelled run: it acknowledges the message, and stores no other state."""


def settle_outcome(run: Run, call_next: Callable[[], Any]) -> Any:
    wrong = misfit(run.task, run.args, run.kwargs)
    if wrong is not None:
        # A deployment has changed the signature, mostly: it would fail each time, and a person has to look.
        _fail(run, wrong, "wrong_signature")
    try:
        return call_next()
    except (Retry, Ignore):
        raise
    except Reject as reject:
        if not reject.requeue:
            # Celery acknowledges it, and on Redis nothing would be left of the message.
            _record(run.task, run.request, run.args, run.kwargs, reject, "rejected")
        raise
    except Snooze as snooze:
        _snooze(run, snooze)
    except Cancel as cancel:
        _cancel(run, cancel)
    except Exception as error:
        requested = cancelling.cancel_behind(run)
        if requested is not None:
            _cancel(run, requested)
        _retry_or_fail(run, error)


def age_seconds(request: Any) -> float:
    """Return the time since the task was first published; 0 for a message that does not say."""
    first = number_of(request, FIRST_PUBLISHED_AT)
    return 0.0 if first is None else max(0.0, SYSTEM_CLOCK.now().timestamp() - first)


def _retry_or_fail(run: Run, error: Exception) -> None:
    task, request, true = run.task, run.request, true_error(error)
    if isinstance(true, MaxRetriesExceededError):
        _fail(run, error, "retries_exhausted")
    if isinstance(true, (ArgumentError, TaskDefinitionError)):
        # wrong each time: a call without a usable key, a child that cannot be published
        _fail(run, error, "not_retryable")
    decision = task.retry_policy.decide(
        true, retries=request.retries or 0, age_seconds=age_seconds(request), now=SYSTEM_CLOCK.now()
    )
    if not decision.is_retry:
        _fail(run, error, decision.reason, may_drop=task.retry_policy.matches(true))
    try:
        # The policy has decided: Celery's own bound must not decide again, and differently.
        raise task.retry(exc=error, countdown=decision.delay_seconds, max_retries=(request.retries or 0) + 1)
    except (Retry, Reject):
        raise
    except Exception:
        log.exception("the retry cannot be published")
        _fail(run, error, "not_retryable")


def keep_late_failure(task: Any, error: Exception, args: Any, kwargs: Any) -> None:
    """Record a failure that happened after the task's own code, unless this run's failure is recorded."""
    if getattr(task.request, _SETTLED, False):
        return
    _record(task, task.request, args, kwargs, error, "not_retryable")
    log.error("task failed after its run", error=type(error).__name__, reason=error_text(error))


def _fail(run: Run, error: Exception, reason: str, *, may_drop: bool | None = None) -> None:
    """Record the final failure, then let the exception end the run.

    Args:
        may_drop: whether `on_exhausted` counts; by the reason where None.
    """
    if may_drop is None:
        may_drop = reason not in _NEVER_DROPPED
    if run.task.on_exhausted == "drop" and may_drop:
        log.warning("task dropped", reason=reason, error=type(error).__name__)
        setattr(run.request, _SETTLED, True)
    else:
        _record(run.task, run.request, run.args, run.kwargs, error, reason)
    if isinstance(error, MemoryError):
        # Celery lets it through to the parent as a lost process, which would run the task again.
        raise OutOfMemoryError(str(error)) from error.with_traceback(task_traceback(error))
    raise error


def _record(task: Any, request: Any, args: Any, kwargs: Any, error: Exception, reason: str) -> None:
    """Write the dead letter, or have the task run again later: put back, it would run again at once."""
    try:
        failures.record(failures.from_run(task, request, args, kwargs, error=error, reason=reason))
    except Exception as store_error:
        raise _after_store_failure(task, request, error, store_error) from error
    setattr(request, _SETTLED, True)


def _after_store_failure(task: Any, request: Any, error: Exception, store_error: Exception) -> Exception:
    try:
        with attempts.noted(request, error):
            return _run_later(task, request, OUTAGE.pause_seconds(), "the dead letter store is away")
    except Exception:
        return Reject(store_error, requeue=True)


def _snooze(run: Run, snooze: Snooze) -> None:
    task, request = run.task, run.request
    if request.is_eager:
        # Celery would run it again at once, and for ever
        error = RunError(
            f"Task {task.name!r} is {snooze}, and an eager run cannot wait. Publish it to a worker, or call "
            "it as a function: then Snooze reaches the caller."
        )
        _fail(run, error, "not_retryable")
    if age_seconds(request) + snooze.delay_seconds > task.app.settings.snooze_max_age_seconds:
        _fail(run, snooze, "snoozed_too_long")
    try:
        raise _run_later(task, request, snooze.delay_seconds, str(snooze))
    except Retry:
        raise
    except Exception as error:
        if is_broker_failure(error):
            raise Reject(error, requeue=True) from error
        _fail(run, error, "not_retryable")


def _run_later(task: Any, request: Any, delay_seconds: float, why: str) -> Retry:
    """Publish the call again, with the same number of attempts, and return what ends this run.

    Raises:
        PublishError: the broker did not take it.
    """
    signature = task.signature_from_request(request, countdown=delay_seconds, retries=request.retries or 0)
    if not request.is_eager:
        signature.apply_async(on_commit=False)
    outcome = Retry(message=why, when=delay_seconds, is_eager=request.is_eager, sig=signature)
    outcome.snoozed = True
    return outcome


def _cancel(run: Run, cancel: Cancel) -> None:
    if not run.request.is_eager:
        _store_cancelled(run.task, run.request, str(cancel))
        cancelling.note_end(run, cancel)
    cancelling.call_hook(run.task, str(cancel), run.request.id, run.args, run.kwargs)
    raise Cancelled(str(cancel))


def _store_cancelled(task: Any, request: Any, reason: str) -> None:
    ignored = task.ignore_result if request.ignore_result is None else request.ignore_result
    try:
        # also tells a chord that this part will not come
        task.backend.mark_as_revoked(request.id, reason, request=request, store_result=not ignored)
    except Exception:
        if request.chord:
            raise  # it would wait for ever
        log.exception("the state of the cancelled task is not stored")
