"""Who holds a claim: a token that nobody can guess or share, and a description for people."""

from __future__ import annotations

import os
import secrets
from typing import Any


def new_owner() -> str:
    """Return a token for one run.

    Never the task id: a redelivered message has the same one, and is another run.
    """
    return secrets.token_hex(16)


def describe_holder(task: Any, request: Any) -> dict[str, Any]:
    """Return what people want to know of a holder: `task_id`, `task`, `worker` and `pid`."""
    return {
        "task_id": request.id,
        "task": task.name,
        "worker": getattr(request, "hostname", None),
        "pid": os.getpid(),
    }
