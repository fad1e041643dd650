"""Breakers for the tests: a clock that stands until it is moved, and runs that end as a test wants."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from taskyard.breakers.definition import Breaker
from taskyard.breakers.state import BreakerState
from taskyard.breakers.store import BreakerStore, Change, Permit

LEASE_SECONDS = 10.0


class MovableClock:
    """Stands until it is moved."""

    def __init__(self) -> None:
        self._start = datetime(2026, 3, 1, 12, tzinfo=UTC)
        self.seconds = 0.0

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    def move(self, seconds: float) -> None:
        self.seconds += seconds


@dataclass
class Fleet:
    """Whoever calls under one breaker.

    Args:
        clock: the time of the whole fleet.
    """

    store: BreakerStore
    breaker: Breaker
    clock: MovableClock

    def changed(self, **parameters: Any) -> Fleet:
        """Return the same fleet with other parameters of the breaker."""
        return replace(self, breaker=replace(self.breaker, **parameters))

    @property
    def name(self) -> str:
        assert isinstance(self.breaker.name, str)
        return self.breaker.name

    @property
    def state(self) -> BreakerState:
        (state,) = [state for state in self.store.overview() if state.name == self.name]
        return state

    def ask(self) -> Permit:
        return self.store.admit(self.breaker, self.name, lease_seconds=LEASE_SECONDS)

    def end(self, permit: Permit, *, is_failure: bool | None = False) -> Change | None:
        error = "PartnerError" if is_failure else ""
        return self.store.settle(self.breaker, self.name, permit, is_failure=is_failure, error=error)

    def call(self, *, is_failure: bool | None = False) -> Change | None:
        """Make one call from beginning to end."""
        permit = self.ask()
        assert permit.is_granted, f"parked for {permit.wait_seconds} s"
        return self.end(permit, is_failure=is_failure) or permit.change

    def open(self) -> None:
        """Fail often enough."""
        for _ in range(self.breaker.minimum_calls):
            change = self.call(is_failure=True)
            if change is not None and change.after == "open":
                return
        raise AssertionError("it did not open")

    def let_probe(self) -> Permit:
        """Open, wait, and return the first probe."""
        self.open()
        self.clock.move(self.breaker.open_seconds)
        permit = self.ask()
        assert permit.token
        return permit

    def recover(self) -> None:
        """Open, wait and let the probes succeed."""
        self.end(self.let_probe())
        assert self.state.state == "recovering"


class Partner:
    """What the probe tasks of `tests.probe_app.breaking` call.

    Args:
        directory: made for it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir()

    def __str__(self) -> str:
        return str(self._directory)

    def go_down(self) -> None:
        """Fail every call from now on."""
        (self._directory / "down").touch()

    def come_back(self) -> None:
        (self._directory / "down").unlink()

    def hold_calls(self) -> None:
        """Answer nobody until `answer_calls`."""
        (self._directory / "hold").touch()

    def answer_calls(self) -> None:
        (self._directory / "hold").unlink()
