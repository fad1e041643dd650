"""Which of several equal calls is the newest: the ones before it need not run.

A call is replaced only by one that is newer by the time of its publish, and that is on the broker by the time
it is registered. So whatever order the registrations come in, and however wrong the publishers' clocks are,
one call is left that no other replaces: at worst an old one runs, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from taskyard.state.interface import StateStore


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
    """Make a call the newest, unless a newer one is registered by now.

    Raises:
        StateUnavailableError: the store does not answer.
    """
    before = parse_call(store.put_latest(key, str(call), remember_seconds=remember_seconds))
    if before is not None and before > call:
        # two publishers at once: the older one was slower
        store.put_latest(key, str(before), remember_seconds=remember_seconds)


def newer_call(store: StateStore, key: str, call: Call) -> Call | None:
    """Return the registered call if it is newer than this one.

    Raises:
        StateUnavailableError: the store does not answer.
    """
    latest = parse_call(store.read_latest(key))
    return latest if latest is not None and latest.task_id != call.task_id and latest > call else None


def call_of(value: Any) -> Call | None:
    """Return the call that a message header names; None if it is none."""
    return parse_call(value) if isinstance(value, str) else None
