"""The task of the webhooks."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from tasks.webhooks import services
from tasks.webhooks.errors import DeliveryRejectedError, ForbiddenDestinationError
from taskyard import Exponential


def _note_exhaustion(*failure: Any) -> None:
    """Celery's hook for a final failure: the dead letter is written, and the table says so too.

    A process that is killed at its hard time limit does not come here; then only the dead letter tells.
    """
    _task, error, _task_id, args, kwargs, _traceback = failure
    services.record_exhaustion(kwargs["delivery_id"] if "delivery_id" in kwargs else args[0], str(error))


@shared_task(
    name="webhooks.deliver",
    queue="high",
    retry=Exponential(max_retries=8, never_on=(DeliveryRejectedError, ForbiddenDestinationError)),
    idempotent="natural",
    idempotent_reason="Every attempt carries the same Webhook-Id, by which the receiver drops duplicates.",
    on_failure=_note_exhaustion,
)
def deliver(delivery_id: int) -> None:
    """Deliver one webhook."""
    services.deliver(delivery_id)
