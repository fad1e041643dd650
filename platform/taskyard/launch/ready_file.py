"""How a started part tells the launcher that it does its work: it touches the file that it was given."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

# Not named TASKYARD_*: those are settings, and unknown ones are refused.
READY_FILE_VARIABLE = "LAUNCH_READY_FILE"


def touch_ready_file(**_signal: Any) -> None:
    """Touch the launcher's file; nothing happens in a process that was started by other means.

    Takes and ignores keywords, so that it can receive a Celery signal.
    """
    path = os.environ.get(READY_FILE_VARIABLE)
    if path:
        Path(path).touch()
