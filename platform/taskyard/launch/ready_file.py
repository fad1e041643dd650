"""The file by which a worker tells the launcher that it is ready."""

from __future__ import annotations

import os
from pathlib import Path

READY_FILE_VARIABLE = "TASKYARD_READY_FILE"


def touch_ready_file() -> None:
    """Make the file that the launcher waits for, if it asked for one."""
    path = os.environ.get(READY_FILE_VARIABLE)
    if path:
        Path(path).touch()
