"""The task of the image sets."""

from __future__ import annotations

from celery import shared_task

from tasks.media import services
from tasks.media.errors import SourceFolderError
from taskyard import Exponential


@shared_task(
    name="media.resize_image_set",
    queue="bulk",
    retry=Exponential(max_retries=5, base_seconds=5, never_on=(SourceFolderError,)),
    idempotent="natural",
    idempotent_reason="Outputs have fixed names and are replaced whole; what is finished is skipped.",
)
def resize_image_set(image_set_id: int) -> None:
    """Resize the pictures of an image set."""
    services.resize_image_set(image_set_id)
