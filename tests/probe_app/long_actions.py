"""What a probe console can be asked about long tasks and cancellation."""

from __future__ import annotations

from typing import Any

import taskyard


def cancel(task_id: str) -> dict[str, Any]:
    """Cancel a task from a process of the project."""
    return taskyard.cancel(task_id, by="console", reason="a test").as_dict()
