"""The task of the image sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from celery import shared_task

from tasks.media import services
from tasks.media.errors import SourceFolderError
from taskyard import Exponential, LongTask


def note_cancelled(
    _task: LongTask, reason: str, _task_id: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Tell the set that its task was cancelled, perhaps before it began."""
    services.note_cancelled(args[0] if args else kwargs["image_set_id"], reason)


@shared_task(
    name="media.resize_image_set",
    base=LongTask,
    bind=True,
    queue="bulk",
    retry=Exponential(max_retries=5, base_seconds=5, never_on=(SourceFolderError,)),
    idempotent="natural",
    idempotent_reason="Outputs have fixed names and are replaced whole; what is finished is skipped.",
    on_cancelled=note_cancelled,
)
def resize_image_set(self: LongTask, image_set_id: int) -> None:
    """Resize the pictures of an image set."""
    services.resize_image_set(image_set_id, report=self.progress)
