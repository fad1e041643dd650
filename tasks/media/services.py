"""Resizing of a whole image set: resumes where it stopped, reports progress, obeys a cancel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import structlog
from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import transaction

from tasks.media import pictures
from tasks.media.errors import BrokenPictureError, SourceFolderError
from tasks.media.models import ImageSet
from tasks.media.progress import Progress
from taskyard import Cancel
from taskyard.clock import SYSTEM_CLOCK, Clock

log = structlog.stdlib.get_logger(__name__)

DEFAULT_SIZES = (1280, 640, 160)
LARGEST_EDGE = 10_000
# The hard limit of the bulk queue: no run that is still alive writes for longer.
STALE_AFTER = timedelta(hours=1)


def create_image_set(folder: Path, sizes: Sequence[int] = DEFAULT_SIZES) -> ImageSet:
    """Store a set that is ready to be resized.

    Args:
        folder: where the pictures are, as the workers see it; its subfolders are not read.
        sizes: longest edges in pixels.

    Raises:
        SourceFolderError: the path is not absolute, or a size is not between 1 and 10,000.
    """
    if not folder.is_absolute():
        raise SourceFolderError(
            f"The source folder is not an absolute path: {str(folder)!r}. Give the whole path."
        )
    wrong = [size for size in sizes if not 1 <= size <= LARGEST_EDGE]
    if wrong or not sizes:
        raise SourceFolderError(
            f"The sizes {list(sizes)} cannot be used. Give one or more of 1 to {LARGEST_EDGE} pixels."
        )
    return ImageSet.objects.create(source_folder=str(folder), sizes=sorted(set(sizes), reverse=True))


def start_image_set(folder: Path, sizes: Sequence[int] = DEFAULT_SIZES) -> ImageSet:
    """Store a set and publish its task, after the commit around it; see `create_image_set`."""
    from tasks.media.tasks import resize_image_set  # which imports this module

    with transaction.atomic():
        image_set = create_image_set(folder, sizes)
        resize_image_set.delay(image_set.pk)
    return image_set


def request_cancel(image_set_id: int) -> bool:
    """Ask a set to stop; it does so before its next picture.

    Returns:
        False where there is nothing to stop: the set is done, cancelled or gone.
    """
    stoppable = (ImageSet.State.WAITING, ImageSet.State.RUNNING, ImageSet.State.INTERRUPTED)
    return bool(ImageSet.objects.filter(pk=image_set_id, state__in=stoppable).update(cancel_requested=True))


def no_report(_done: int, _total: int, _note: str) -> None:
    """Tell nobody."""


def output_folder(image_set_id: int) -> Path:
    """Return where the resized pictures of a set are."""
    return Path(settings.MEDIA_ROOT) / "image-sets" / str(image_set_id)


def note_cancelled(image_set_id: int, reason: str, *, clock: Clock = SYSTEM_CLOCK) -> None:
    """Note that the task of a set was cancelled, unless the set says so already."""
    stoppable = (ImageSet.State.WAITING, ImageSet.State.RUNNING, ImageSet.State.INTERRUPTED)
    ImageSet.objects.filter(pk=image_set_id, state__in=stoppable).update(
        state=ImageSet.State.CANCELLED, note=reason, finished_at=clock.now()
    )


def resize_image_set(
    image_set_id: int, *, report: Callable[[int, int, str], None] = no_report, clock: Clock = SYSTEM_CLOCK
) -> None:
    """Resize every picture of the set that is not finished yet.

    Safe to run again at any point, or twice at once: outputs have fixed names and appear only whole.

    Args:
        image_set_id: the set; it keeps what its page shows, also after the task is forgotten.
        report: told after each picture how many are done, of how many, and which was the last.
        clock: where the time comes from.

    Raises:
        Cancel: the set is gone, its cancellation was requested, or `report` says so.
        SourceFolderError: the folder cannot be read.
        SoftTimeLimitExceeded: the time is up; what is finished is kept.
        OSError: the outputs cannot be written.
    """
    image_set = ImageSet.objects.filter(pk=image_set_id).first()
    if image_set is None:
        raise Cancel(f"image set {image_set_id} no longer exists")
    if image_set.state == ImageSet.State.DONE:
        log.info("image set is done already", image_set_id=image_set_id)
        return
    if image_set.state == ImageSet.State.CANCELLED:
        raise Cancel(f"image set {image_set_id} was cancelled before")
    progress = Progress(image_set_id, clock)
    try:
        _resize_all(image_set, progress, report, clock)
    except Cancel as cancel:
        _finish(progress, ImageSet.State.CANCELLED, note=str(cancel), clock=clock)
        raise
    except SoftTimeLimitExceeded:
        _interrupt(progress, f"The time limit was reached after picture {progress.done}.")
        raise
    except Exception as error:
        _interrupt(progress, f"{type(error).__name__}: {error}")
        raise
    _finish(progress, ImageSet.State.DONE, note="", clock=clock)


def _resize_all(
    image_set: ImageSet, progress: Progress, report: Callable[[int, int, str], None], clock: Clock
) -> None:
    target = output_folder(image_set.pk)
    sources = _find_pictures(Path(image_set.source_folder))
    pictures.remove_stale_parts(target, now=clock.now(), older_than=STALE_AFTER)
    # The finished files are the checkpoint: an earlier run may have come far.
    pending = [source for source in sources if pictures.missing_sizes(source, target, image_set.sizes)]
    progress.done = len(sources) - len(pending)
    progress.save(
        state=ImageSet.State.RUNNING,
        total=len(sources),
        note="",
        started_at=image_set.started_at or clock.now(),
    )
    for source in pending:
        _obey_cancel(image_set.pk, progress)
        _resize_one(source, target, image_set.sizes, progress)
        progress.finish_picture()
        report(progress.done, len(sources), source.name)


def _find_pictures(folder: Path) -> list[Path]:
    try:
        return pictures.list_pictures(folder)
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise SourceFolderError(
            f"The source folder cannot be read: {str(folder)!r} ({error.strerror}). "
            "Put it there for the workers too, then replay the dead letter."
        ) from error


def _obey_cancel(image_set_id: int, progress: Progress) -> None:
    if ImageSet.objects.filter(pk=image_set_id, cancel_requested=False).exists():
        return
    raise Cancel(f"cancelled after picture {progress.done}")


def _resize_one(source: Path, target: Path, sizes: Sequence[int], progress: Progress) -> None:
    try:
        # asked again: a second run of the same set may have finished it in the meantime
        pictures.resize_picture(source, target, pictures.missing_sizes(source, target, sizes))
    except BrokenPictureError as error:
        log.warning("picture left out", picture=source.name, reason=str(error))
        progress.record_broken(source.name, str(error))


def _finish(progress: Progress, state: str, *, note: str, clock: Clock) -> None:
    progress.save(state=state, note=note, finished_at=clock.now())
    # A second run that is still at work loses its half-written file, tries again and finds the set finished.
    pictures.remove_stale_parts(
        output_folder(progress.image_set_id), now=clock.now(), older_than=timedelta(0)
    )


def _interrupt(progress: Progress, reason: str) -> None:
    progress.save(state=ImageSet.State.INTERRUPTED, note=reason)
