"""Tracebacks as the author of a task wants them: from the task's own code on, without our layers."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from taskyard.errors import RedactedError, TaskyardError

_OWN_CODE = str(Path(__file__).parent)


def task_traceback(error: BaseException) -> TracebackType | None:
    """Return the part of the traceback that begins in the task.

    None where one of the kit's layers has raised one of its own errors: the text says it all. All of it for
    another error that never got to the task, which would be a fault of the kit.
    """
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(_OWN_CODE):
        traceback = traceback.tb_next
    if traceback is None and not isinstance(error, TaskyardError):
        return error.__traceback__
    return traceback


def described(error: BaseException) -> str:
    """Return type and text of an error."""
    text = error_text(error)
    # a stand-in begins with the type of the error that it stands in for
    return text if isinstance(error, RedactedError) else f"{type(error).__name__}: {text}"


def error_text(error: object) -> str:
    """Return the text of an error, whatever its own code does."""
    try:
        return str(error)
    except Exception as broken:
        return f"(its text cannot be shown: {type(broken).__name__})"
