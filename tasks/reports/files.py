"""Writing a file to a Django storage under a fixed name, so that a reader sees a whole file or none.

Storage.save() does neither: it gives a name that exists a suffix, and writes in place.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import BinaryIO

from django.core.files import File
from django.core.files.storage import FileSystemStorage, Storage

# Django's default leaves the mode to the umask, but a temporary file starts as 0600.
DEFAULT_MODE = 0o644


def replace_file(storage: Storage, name: str, content: BinaryIO) -> None:
    """Write the content under this name, replacing what is there.

    On a local disk the file is replaced atomically. An object store writes a whole object or none; the old
    one is deleted first, so a reader may find nothing for a moment, and after a crash until the next run.

    Args:
        storage: where to.
        name: the name in the storage, with `/` between folders.
        content: read from its start.
    """
    content.seek(0)
    if isinstance(storage, FileSystemStorage):
        _replace_on_disk(Path(storage.path(name)), content, mode=storage.file_permissions_mode)
    else:
        storage.delete(name)
        storage.save(name, File(content))


def _replace_on_disk(path: Path, content: BinaryIO, *, mode: int | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            shutil.copyfileobj(content, file)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).chmod(DEFAULT_MODE if mode is None else mode)
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
