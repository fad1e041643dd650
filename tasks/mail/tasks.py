"""Fire and forget: best effort on the queue `low`."""

from __future__ import annotations

from celery import shared_task

from tasks.mail import services
from taskyard import Cancel, Exponential


@shared_task(
    name="mail.send_welcome",
    queue="low",
    retry=Exponential(max_retries=2),
    # Nobody misses the mail enough to look at a dead letter; the drop is counted.
    on_exhausted="drop",
    idempotent="natural",
    idempotent_reason="a recorded mail is not sent again; a crash before the record sends it twice",
)
def send_welcome(user_id: int) -> None:
    """Send the welcome mail of a user: at most three attempts, normally one mail, never a guarantee."""
    try:
        services.send_welcome(user_id)
    except services.NoRecipient as error:
        raise Cancel(str(error)) from error
