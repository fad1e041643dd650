"""What the user asks by signal: stop, and stop without waiting."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Any

from taskyard.clock import SYSTEM_CLOCK, Clock

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# make, npm and others pass on a signal that the terminal has sent us already: that is no second Ctrl-C.
SAME_REQUEST_SECONDS = 0.5


class StopRequests:
    """Takes SIGINT, SIGTERM and SIGHUP while it is entered.

    The first asks to stop. A SIGINT after that asks to stop without waiting. Until `wait_for_stop()` is
    called, that is while there are no parts to stop in order yet, the first raises KeyboardInterrupt instead.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._first_at: float | None = None
        self._raises = True
        self._previous: dict[signal.Signals, Any] = {}
        self.is_forced = False
        self.reason = ""

    @property
    def is_asked(self) -> bool:
        return self._first_at is not None

    def wait_for_stop(self) -> None:
        """From now on only note the requests."""
        self._raises = False

    def __enter__(self) -> StopRequests:
        for number in SIGNALS:
            self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        now = self._clock.monotonic()
        if self._first_at is None:
            self._first_at = now
            self.reason = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
            if self._raises:
                raise KeyboardInterrupt
        elif number == signal.SIGINT and now - self._first_at >= SAME_REQUEST_SECONDS:
            self.is_forced = True
