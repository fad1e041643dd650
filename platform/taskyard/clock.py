"""Time, injected: wall-clock and monotonic time are different functions, never one for the other."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What code that needs the time is given."""

    def now(self) -> datetime:
        """Wall-clock time, aware, UTC. May step."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment. Never steps back; only differences mean anything."""


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


SYSTEM_CLOCK: Clock = SystemClock()
