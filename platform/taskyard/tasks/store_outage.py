"""The dead letter store is away: how long to wait before it is asked again, and what to say without a flood.

Every process that fails to store something knows this for itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import structlog

from taskyard.clock import SYSTEM_CLOCK, Clock
from taskyard.tasks.traceback import error_text

log = structlog.stdlib.get_logger("taskyard.dead_letter")

FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 60.0
LOG_INTERVAL_SECONDS = 30.0
# Spread, so that what failed together does not all come back together.
SPREAD = 0.2


class StoreOutage:
    """How long the store has been away, as this process sees it.

    Args:
        clock: what time it is.
        spread: returns a random number between its two arguments.
    """

    def __init__(
        self, *, clock: Clock = SYSTEM_CLOCK, spread: Callable[[float, float], float] = random.uniform
    ) -> None:
        self._clock = clock
        self._spread = spread
        self._since: float | None = None
        self._logged_at = 0.0
        self._failures = 0

    def begin_or_go_on(self, error: BaseException) -> None:
        """Note that something was not stored; a line in the log says so at most every 30 s."""
        now = self._clock.monotonic()
        is_first = self._since is None
        if self._since is None:
            self._since, self._failures = now, 0
        self._failures += 1
        if not is_first and now - self._logged_at < LOG_INTERVAL_SECONDS:
            return
        self._logged_at = now
        log.error(
            "dead letter not stored, nothing is acknowledged, the store is asked again",
            error=type(error).__name__,
            reason=error_text(error).strip(),
            failures=self._failures,
            away_seconds=round(now - self._since, 1),
            next_try_in_seconds=round(self._pause(now), 1),
            exc_info=error if is_first else None,
        )

    def end(self) -> None:
        """Note that something was stored."""
        if self._since is None:
            return
        away_seconds = round(self._clock.monotonic() - self._since, 1)
        log.warning("the dead letter store is back", failures=self._failures, away_seconds=away_seconds)
        self._since = None

    def pause_seconds(self) -> float:
        """Return how long to wait: about as long as it has been away, 5 s to a minute."""
        return self._pause(self._clock.monotonic()) * self._spread(1 - SPREAD, 1 + SPREAD)

    def _pause(self, now: float) -> float:
        away_seconds = 0.0 if self._since is None else now - self._since
        return min(max(FIRST_PAUSE_SECONDS, away_seconds), LONGEST_PAUSE_SECONDS)


OUTAGE = StoreOutage()
