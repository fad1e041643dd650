"""What a run that has to wait for the lock says in its message, and where the newest replaces the others.

With `on_conflict="replace"` every run that has to wait registers itself, unless a newer one is registered.
When it comes up again and a newer one is registered by then, it ends as cancelled: only one waits for long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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


def begin_to_wait(request: Any) -> bool:
    """Note in the message that its run waits. Return False if it did before."""
    if _waiting_call(request) is not None:
        return False
    published_at = number_of(request, FIRST_PUBLISHED_AT)
    moment = SYSTEM_CLOCK.now().timestamp() if published_at is None else published_at
    set_header(request, WAITS, str(Call(moment, request.id)))
    return True


def leave_if_replaced(run: Run, store: StateStore, key: str) -> None:
    """End a run that has waited, if a newer one waits or has waited since.

    Raises:
        StateUnavailableError: the store does not answer.
    """
    call = _waiting_call(run.request)
    if call is not None:
        cancel_if_replaced(run, store, key, call, what="singleton")


def wait_as_the_newest(run: Run, store: StateStore, key: str, *, remember_seconds: float) -> None:
    """Take the place of the run that waits; end, if that one is newer.

    Raises:
        StateUnavailableError: the store does not answer.
    """
    call = _waiting_call(run.request)
    if call is not None:
        cancel_if_replaced(run, store, key, call, what="singleton")
        register(store, key, call, remember_seconds=remember_seconds + LATE_SECONDS)


def _waiting_call(request: Any) -> Call | None:
    """Return the call that its message says is waiting; None for a header that was copied from another."""
    value = header_of(request, WAITS)
    call = parse_call(value) if isinstance(value, str) else None
    return call if call is not None and call.task_id == request.id else None
