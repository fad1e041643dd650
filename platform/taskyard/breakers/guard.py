"""Around one run: ask the breaker before it, tell it afterwards, and say what has changed in a few lines."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from typing import cast

import structlog

from taskyard import signals
from taskyard.breakers.definition import Breaker
from taskyard.breakers.store import BreakerStore, Change, Permit
from taskyard.clock import SYSTEM_CLOCK, Clock
from taskyard.errors import StateUnavailableError
from taskyard.outcomes import Snooze
from taskyard.state.interface import Claim, StateStore
from taskyard.state.keeper import held

log = structlog.stdlib.get_logger("taskyard.breakers")

# Of the runs that a process parks at a breaker, one line tells, and after that one in this time.
PARK_LOG_SECONDS = 60.0
_MAX_NAMES = 1000


class Parked(Snooze):
    """What the task calls is down: run it again later, without using up an attempt.

    Args:
        name: of the breaker.
        delay_seconds: until it should ask again.
    """

    def __init__(self, name: str, delay_seconds: float) -> None:
        self.name = name
        super().__init__(delay_seconds, f"the circuit breaker {name!r} is open")


class Guard:
    """One run under one breaker.

    Args:
        breaker: its parameters.
        name: its name for this run.
        lease_seconds: the place of a probe is free so long after its process has died.
    """

    def __init__(self, store: BreakerStore, breaker: Breaker, name: str, *, lease_seconds: float) -> None:
        self._store = store
        self._breaker = breaker
        self._name = name
        self._lease_seconds = lease_seconds
        self._permit: Permit | None = None

    def enter(self) -> None:
        """Ask.

        Raises:
            Parked: the run may not begin now.
        """
        if self._store.outage.is_on:
            return
        try:
            permit = self._store.admit(self._breaker, self._name, lease_seconds=self._lease_seconds)
        except StateUnavailableError as error:
            self._store.outage.note(str(error))
            return
        announce(permit.change)
        if not permit.is_granted:
            _parked.note(self._name, permit.wait_seconds)
            raise Parked(self._name, permit.wait_seconds)
        self._permit = permit

    def renewed(self) -> AbstractContextManager[object]:
        """Keep the place of a probe for as long as the block runs."""
        if self._permit is None or not self._permit.token:
            return nullcontext()
        place = Claim(key=self._name, state="held", owner=self._permit.token, fence=0)
        # the keeper only renews, and a place is renewed as a claim is
        return held(cast(StateStore, self._store), place, lease_seconds=self._lease_seconds)

    def leave(self, error: BaseException | None, *, was_called: bool = True) -> None:
        """Tell how the run has ended.

        Args:
            error: what it raised.
            was_called: False if it ended before the task's own code began.
        """
        if self._permit is None:
            return
        is_failure = self._breaker.is_failure(error) if was_called else None
        if is_failure is None and not self._permit.token:
            return
        try:
            change = self._store.settle(
                self._breaker, self._name, self._permit, is_failure=is_failure, error=_class_of(error)
            )
        except StateUnavailableError as store_error:
            self._store.outage.note(str(store_error))
        else:
            announce(change)


def announce(change: Change | None) -> None:
    """Log a change and send the signal, in the process that has caused it."""
    if change is None:
        return
    write = log.warning if change.after in ("open", "forced_open") else log.info
    write(
        "circuit breaker changed",
        breaker=change.name,
        before=change.before,
        after=change.after,
        reason=change.reason,
    )
    signals.breaker_changed.send_robust(
        sender=Breaker, name=change.name, before=change.before, after=change.after, reason=change.reason
    )


class ParkLog:
    """Says in one line how many runs this process has parked since the last one.

    Args:
        clock: for tests.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # by name: when the next line may come, and how many runs it will tell of
        self._next: dict[str, tuple[float, int]] = {}

    def note(self, name: str, wait_seconds: float) -> None:
        """A run was parked."""
        now = self._clock.monotonic()
        with self._lock:
            due_at, count = self._next.get(name, (now, 0))
            count += 1
            is_due = now >= due_at
            if len(self._next) >= _MAX_NAMES:
                self._next.clear()
            self._next[name] = (now + PARK_LOG_SECONDS, 0) if is_due else (due_at, count)
        if is_due:
            log.info("tasks parked", breaker=name, parked=count, next_run_in_seconds=round(wait_seconds, 3))


_parked = ParkLog()


def _class_of(error: BaseException | None) -> str:
    """Return the class only: the text may show an argument, and everybody sees this."""
    cause = getattr(error, "exc", None)
    return (
        type(error if not isinstance(cause, BaseException) else cause).__name__ if error is not None else ""
    )
