"""Which fault an error is: its type and its place in the task's own code, the same on every machine."""

from __future__ import annotations

import sysconfig
import traceback as traceback_module
from pathlib import Path, PurePath
from types import FrameType
from typing import Any

from taskyard.errors import RedactedError, TaskyardError
from taskyard.tasks.traceback import task_traceback

# Directories of code that is not the project's.
_FOREIGN_PARTS = frozenset({"site-packages", "dist-packages"})
_KIT = Path(__file__).resolve().parents[1]
_STANDARD_LIBRARY = tuple(
    {path for name in ("stdlib", "platstdlib") if (path := sysconfig.get_path(name)) is not None}
)


def error_type(error: BaseException) -> str:
    """Return the qualified name of an error's type; of a built-in one, its name."""
    if isinstance(error, RedactedError):
        return error.type_name.removeprefix("builtins.")
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def error_place(error: BaseException) -> str:
    """Return `file.py:line in function` of the innermost frame in the project's code, "" without a traceback.

    "" also for an error that the kit itself has raised, with nothing of the project on the way. Code of
    installed packages, of Python and of the kit counts only where nothing else was on the way. The file
    is named as its module is: `shop/orders/tasks.py`, wherever the project lies.
    """
    frames = list(traceback_module.walk_tb(task_traceback(error)))
    if not frames:
        return ""
    frame, line = next(((frame, line) for frame, line in reversed(frames) if _is_project(frame)), frames[-1])
    if isinstance(error, TaskyardError) and PurePath(frame.f_code.co_filename).is_relative_to(_KIT):
        return ""
    return f"{_file(frame)}:{line} in {frame.f_code.co_name}"


def _is_project(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    if name.startswith("<"):
        return False
    path = PurePath(name)
    return not (
        _FOREIGN_PARTS.intersection(path.parts)
        or path.is_relative_to(_KIT)
        or any(path.is_relative_to(directory) for directory in _STANDARD_LIBRARY)
    )


def _file(frame: FrameType) -> str:
    """Return the end of the file's path that its module's name has."""
    path = PurePath(frame.f_code.co_filename)
    module: Any = frame.f_globals.get("__name__")
    depth = len(module.split(".")) if isinstance(module, str) else 1
    if path.stem == "__init__":
        depth += 1
    return "/".join(path.parts[-depth:])
