"""Which of several equal calls is the newest: the ones before it need not run.

A call is registered once it is on the broker, and the last one registered stands. Another is replaced only
by a registered one with a later time of publish. So whatever order the registrations come in, and however
wrong the clocks of publishers are, one call is left to run; with clocks that agree, it is the last one. At
worst an old one runs, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from taskyard.outcomes import Cancel
from taskyard.signals import duplicate_found
from taskyard.state import StateStore

if TYPE_CHECKING:
    from taskyard.tasks.run import Run


@dataclass(frozen=True, order=True, slots=True)
class Call:
    """One call, ordered by its age.

    Args:
        at: UTC epoch seconds of its publish, by the publisher's clock.
        task_id: decides between two of the same moment.
    """

    at: float
    task_id: str

    def __str__(self) -> str:
        return f"{self.at:.6f} {self.task_id}"


def parse_call(text: str | None) -> Call | None:
    """Return a registered call; None for nothing, and for what is none."""
    at, _, task_id = (text or "").partition(" ")
    try:
        return Call(float(at), task_id)
    except ValueError:
        return None


def register(store: StateStore, key: str, call: Call, *, remember_seconds: float) -> None:
    """Make a call, which is on the broker by now, the one that replaces older ones.

    Raises:
        StateUnavailableError: the store does not answer.
    """
    store.put_latest(key, str(call), remember_seconds=remember_seconds)


def cancel_if_replaced(run: Run, store: StateStore, key: str, call: Call, *, what: str) -> None:
    """End a run whose call is older than the registered one.

    Args:
        what: "publish" or "singleton", for the receivers of `duplicate_found`.

    Raises:
        Cancel: says which call has replaced it.
        StateUnavailableError: the store does not answer.
    """
    latest = parse_call(store.read_latest(key))
    if latest is None or latest.task_id == call.task_id or latest < call:
        return
    # what a receiver raises is logged by Django
    duplicate_found.send_robust(
        sender=type(run.task),
        task=run.task,
        key=key,
        task_id=run.request.id,
        holder={"task_id": latest.task_id, "task": run.task.name},
        what=what,
        outcome="replaced",
    )
    raise Cancel(f"replaced by {latest.task_id}")
