"""A task whose process died is published again, a bounded number of times, apart from its policy's retries.

Celery counts such a run as a retry and stops at the task's `max_retries`: a task that has failed three times
and then loses its process is acknowledged and gone.
"""

from __future__ import annotations

from typing import Any

from celery import signals
from celery.exceptions import Retry
from celery.utils.saferepr import saferepr

from taskyard.correlation import correlated
from taskyard.tasks.attempts import noted
from taskyard.tasks.publish import published_now

# Message header: how often the process of this task has died. Kept over retries and redelivery by a retry.
LOSSES_HEADER = "worker_losses"


def count_loss(context: Any) -> int:
    """Add one to the losses in the headers of a run, and return their number."""
    headers = dict(context.headers or {})
    before = headers.get(LOSSES_HEADER)
    headers[LOSSES_HEADER] = losses = (before if isinstance(before, int) else 0) + 1
    context.headers = headers
    return losses


def publish_again(request: Any, losses: int, error: BaseException) -> float:
    """Publish the call of a worker-side request once more, and return the delay in seconds.

    The first run after a loss comes soon, later ones wait.

    Args:
        error: how the process was lost; the message carries it as an attempt.

    Raises:
        PublishError: the broker did not take it.
        ArgumentError: it can't be published any more.
    """
    delay_seconds = float(request.task.retry_policy.delay_seconds(losses) / 2)
    publish_later(request, error, delay_seconds=delay_seconds)
    return delay_seconds


def publish_later(request: Any, error: BaseException, *, delay_seconds: float) -> None:
    """Publish the call of a worker-side request once more, without using up a retry.

    Args:
        error: how its run has ended; the message carries it as an attempt.

    Raises:
        PublishError: the broker did not take it.
        ArgumentError: it can't be published any more.
    """
    context = request._context
    with correlated(request.correlation_id), published_now(), noted(context, error):
        request.task.signature_from_request(
            context, countdown=delay_seconds, retries=context.retries or 0
        ).apply_async()


def announce_again(request: Any, error: BaseException, exc_info: Any, delay_seconds: float) -> None:
    """Tell results, Flower and receivers of Celery's signals that the task runs again."""
    task, context = request.task, request._context
    if request.store_errors:
        task.backend.mark_as_retry(request.id, error, exc_info.traceback, request=context)
    request.send_event("task-retried", exception=saferepr(error), traceback=str(exc_info.traceback))
    task.request_stack.push(context)
    try:
        task.on_retry(error, request.id, request.args, request.kwargs, exc_info)
        reason = Retry(exc=error, when=delay_seconds)
        signals.task_retry.send(sender=task, request=context, reason=reason, einfo=exc_info)
    finally:
        task.request_stack.pop()
