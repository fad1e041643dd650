"""One launcher a checkout, one server a data directory: a lock that ends with its holder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from taskyard.errors import LaunchError


class LockTakenError(LaunchError):
    """Somebody else holds the lock.

    Attributes:
        note: what the holder wrote into the file, usually its process id; empty if it has not yet.
    """

    def __init__(self, path: Path, note: str) -> None:
        self.path, self.note = path, note
        super().__init__(f"{path} is locked by {note or 'another process'}")


class FileLock:
    """A lock on a file, by flock: it ends with its last holder, so a file that is left behind means nothing.

    A child that inherits `descriptor` holds the lock too.

    Args:
        path: of the file; it is made, and stays.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    @property
    def descriptor(self) -> int:
        if self._descriptor is None:
            raise RuntimeError(f"The lock {self.path} is not held. Call acquire() first.")
        return self._descriptor

    def acquire(self, *, keep_note: bool = False) -> None:
        """Take the lock, and write this process's id into the file for the one who comes next.

        Args:
            keep_note: leave what is in the file.

        Raises:
            LockTakenError: somebody else holds it.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            found = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
            os.close(descriptor)
            raise LockTakenError(self.path, found) from None
        self._descriptor = descriptor
        if not keep_note:
            self.write_note(str(os.getpid()))

    def holder(self) -> str | None:
        """Return the note of whoever holds the lock now, or None if it is free."""
        if not self.path.exists():
            return None
        probe = FileLock(self.path)
        try:
            probe.acquire(keep_note=True)
        except LockTakenError as error:
            return error.note
        probe.release()
        return None

    def write_note(self, note: str) -> None:
        """Replace the note in the file."""
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, f"{note}\n".encode(), 0)

    def release(self) -> None:
        """Let go; a child that inherited the lock still holds it. Does nothing when it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
