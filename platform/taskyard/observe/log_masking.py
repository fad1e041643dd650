"""Log lines that are written during a run show no argument that its task has marked.

Whoever writes them: the task's own code, a library, the kit. What another logging handler than ours makes of
a record, or what is logged in a thread that the task starts, is not in our hands.
"""

from __future__ import annotations

from typing import Any

import structlog
from structlog.typing import EventDict, WrappedLogger

from taskyard.marked_values import Scrubber, active_scrubber


def mask_marked_values(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """A processor of structlog: mask what the run that this line is a part of has marked."""
    scrubber = active_scrubber()
    if scrubber is None:
        return event
    # as text now: later, the traceback would be made of the error itself
    event = structlog.processors.format_exc_info(logger, method, event)
    return {name: value if _is_ours(name) else _masked(value, scrubber) for name, value in event.items()}


def _is_ours(name: str) -> bool:
    """Whether a field comes from the logging itself."""
    # what begins with "_" is structlog's, and no part of the line
    return name.startswith("_") or name in ("level", "logger", "timestamp")


def _masked(value: Any, scrubber: Scrubber) -> Any:
    cleaned = scrubber.value(value)
    if cleaned is not value or isinstance(value, (str, int, float, type(None))):
        return cleaned
    text = str(value)
    return scrubber.text(text) if scrubber.finds(text) or scrubber.finds(repr(value)) else value
