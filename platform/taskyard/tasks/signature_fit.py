"""Do the arguments fit the task's signature? Asked before a run, and before a replay."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any


def misfit(task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TypeError | None:
    """Return the error that a call with these arguments would raise before the task's own code, or None.

    Celery compiles a function with an empty body from each task's signature, so this costs less than a call.
    """
    header = getattr(task, "__header__", None)
    try:
        if header is None:
            # a task that is a class
            inspect.signature(task.run).bind(*args, **kwargs)
        else:
            header(*args, **kwargs)
    except TypeError as error:
        return error.with_traceback(None)
    return None


def signature_text(task: Any) -> str:
    """Return the call of a task as its author wrote it, as in `orders.charge(order_id: int, retry=False)`."""
    return f"{task.name}{inspect.signature(task.run)}"
