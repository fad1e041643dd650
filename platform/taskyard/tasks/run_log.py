"""The layer that writes one log line at the start and one at the end of each run, with the same fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import structlog
from celery.exceptions import Ignore, Reject, Retry

from taskyard.clock import SYSTEM_CLOCK
from taskyard.tasks.publish import PUBLISHED_AT
from taskyard.tasks.run_context import correlation_id_of, number_of
from taskyard.tasks.traceback import error_text, task_traceback

if TYPE_CHECKING:
    from taskyard.tasks.run import Run

log = structlog.stdlib.get_logger("taskyard.task")


def log_run(run: Run, call_next: Callable[[], Any]) -> Any:
    request, clock = run.request, SYSTEM_CLOCK
    fields = run_fields(run.task, request)
    with structlog.contextvars.bound_contextvars(**fields):
        run.log_start = lambda: log.info(
            "task started", wait_seconds=_wait_seconds(request, clock.now().timestamp())
        )
        if getattr(run.task, "breaker", None) is None:
            run.log_start()
        started = clock.monotonic()

        def duration() -> float:
            return round(clock.monotonic() - started, 4)

        try:
            result = call_next()
        except Retry as outcome:
            snoozed = getattr(outcome, "snoozed", False)
            # Ten thousand parked runs would say the same; the breaker's own lines tell how many there are.
            write = log.debug if run.is_parked else log.info
            write(
                "task snoozed" if snoozed else "task retried",
                duration_seconds=duration(),
                reason=error_text(outcome.exc if outcome.exc is not None else outcome.message or ""),
                next_run_in_seconds=round(outcome.when, 3)
                if isinstance(outcome.when, (int, float))
                else None,
            )
            raise
        except Ignore as outcome:
            event = getattr(outcome, "log_event", "task cancelled")
            log.info(event, duration_seconds=duration(), reason=error_text(outcome))
            raise
        except Reject as outcome:
            log.warning(
                "task put back" if outcome.requeue else "task rejected",
                duration_seconds=duration(),
                reason=error_text(outcome.reason),
            )
            raise
        except Exception as error:
            log.error(  # noqa: TRY400 - with the traceback that begins in the task
                "task failed",
                duration_seconds=duration(),
                error=type(error).__name__,
                exc_info=(type(error), error, task_traceback(error)),
            )
            raise
        log.info("task succeeded", duration_seconds=duration())
        return result


def run_fields(task: Any, request: Any) -> dict[str, Any]:
    """Return the fields that every log line about a run has."""
    return {
        "task": task.name,
        "task_id": request.id,
        "queue": (request.delivery_info or {}).get("routing_key"),
        "attempt": (request.retries or 0) + 1,
        "correlation_id": correlation_id_of(request),
    }


def _wait_seconds(request: Any, now: float) -> float | None:
    published_at = number_of(request, PUBLISHED_AT)
    return None if published_at is None else round(max(0.0, now - published_at), 4)
