"""What can be wrong with an image set."""

from __future__ import annotations

from taskyard.errors import TaskyardError


class MediaError(TaskyardError):
    """Root of this app's errors."""


class SourceFolderError(MediaError):
    """The source folder cannot be read, or the sizes make no sense. No retry heals that."""


class BrokenPictureError(MediaError):
    """One picture cannot be read. It is recorded in the set's report and the others go on."""
