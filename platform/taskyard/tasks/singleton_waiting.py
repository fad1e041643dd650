"""Where the newest run replaces the one that waits for the lock: at most one waits for long.

Every run that has to wait registers itself, unless a newer one is registered. Its message says that it waits;
when it comes up again and a newer one is registered by then, it ends as cancelled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from taskyard.clock import SYSTEM_CLOCK
from taskyard.state import StateStore
from taskyard.tasks.latest import Call, cancel_if_replaced, parse_call, register
from taskyard.tasks.publish import FIRST_PUBLISHED_AT
from taskyard.tasks.run_context import header_of, number_of, set_header

if TYPE_CHECKING:
    from taskyard.tasks.run import Run

# Message header of a run that waits: the moment of its publish, and its id.
WAITS = "singleton_waits"
# How long after it is due a run that waits may come up and still be known as replaced.
LATE_SECONDS = 3600.0


def leave_if_replaced(run: Run, store: StateStore, key: str) -> None:
    """End a run that has waited, if a newer one waits or has waited since.

    Raises:
        StateUnavailableError: the store does not answer.
    """
    value = header_of(run.request, WAITS)
    call = parse_call(value) if isinstance(value, str) else None
    if call is not None and call.task_id == run.request.id:
        cancel_if_replaced(run, store, key, call, what="singleton")


def wait_as_the_newest(run: Run, store: StateStore, key: str, *, remember_seconds: float) -> None:
    """Take the place of the run that waits; end, if that one is newer.

    Raises:
        StateUnavailableError: the store does not answer.
    """
    published_at = number_of(run.request, FIRST_PUBLISHED_AT)
    call = Call(SYSTEM_CLOCK.now().timestamp() if published_at is None else published_at, run.request.id)
    cancel_if_replaced(run, store, key, call, what="singleton")
    register(store, key, call, remember_seconds=remember_seconds + LATE_SECONDS)
    set_header(run.request, WAITS, str(call))
