"""What can be wrong with an import as a whole. What is wrong with one row is a `RowError`, and no failure."""

from __future__ import annotations

from taskyard.errors import TaskyardError


class ProductImportError(TaskyardError):
    """Root of this app's errors."""


class SourceMissingError(ProductImportError):
    """The file to import is not there. No retry finds it."""


class InvalidFileError(ProductImportError):
    """The file is not what we import, or is not the one that was fetched. No retry changes it."""


class ChunkMissingError(ProductImportError):
    """A chunk is named that was never planned. No retry plans it."""


class RowError(ProductImportError):
    """One row cannot be imported; it is recorded and the others go on.

    Args:
        kind: one of `RejectedRow.Kind`.
        reason: for the person who corrects the file.
    """

    def __init__(self, kind: str, reason: str) -> None:
        self.kind, self.reason = kind, reason
        super().__init__(reason)
