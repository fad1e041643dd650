"""The first step: the run gets a copy of its own, since the source may change or go away meanwhile."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from django.core.exceptions import SuspiciousFileOperation
from django.core.files import File
from django.core.files.storage import default_storage

from tasks.imports.errors import SourceMissingError
from tasks.imports.models import ImportRun
from taskyard.clock import Clock


def fetch(run: ImportRun, clock: Clock) -> None:
    """Copy the source into the default storage, where every worker finds it, and note its checksum.

    A second fetch of the same run changes nothing. One that is killed while it copies leaves an unused file
    in the run's folder.

    Raises:
        SourceMissingError: the source is not there or cannot be read.
        OSError: the storage fails.
    """
    if run.checksum:
        return
    with open_source(run.source) as source:
        # the storage finds a free name: two fetches at once do not write into one file
        name = default_storage.save(f"imports/{run.pk}/source.csv", source)
    is_first = ImportRun.objects.filter(pk=run.pk, checksum="").update(
        file=name,
        checksum=checksum_of(name),
        state=ImportRun.State.FETCHED,
        started_at=clock.now(),
        error="",
    )
    if not is_first:
        default_storage.delete(name)


def open_source(source: str) -> File[Any]:
    """Open an absolute path of this machine, or else a name in the default storage.

    Raises:
        SourceMissingError: it is not there or cannot be read.
    """
    try:
        if Path(source).is_absolute():
            return File(Path(source).open("rb"))
        return default_storage.open(source, "rb")
    except (FileNotFoundError, IsADirectoryError, PermissionError, SuspiciousFileOperation) as error:
        raise SourceMissingError(
            f"The file to import cannot be read: {source!r} ({type(error).__name__}). "
            "Put it where the workers see it, then replay the dead letter."
        ) from error


def checksum_of(name: str) -> str:
    """Return the SHA-256 of a stored file."""
    with default_storage.open(name, "rb") as stored:
        digest = hashlib.sha256()
        for block in stored.chunks():
            digest.update(block)
        return digest.hexdigest()
