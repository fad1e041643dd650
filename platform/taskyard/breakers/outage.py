"""While the state store is away, calls pass: it is asked again after a pause, with a log line a minute."""

from __future__ import annotations

import structlog

from taskyard.clock import SYSTEM_CLOCK, Clock

log = structlog.stdlib.get_logger("taskyard.breakers")

# A frozen store costs a run its timeout: the runs of this process do not all pay for it.
PAUSE_SECONDS = 5.0
LOG_SECONDS = 60.0


class Outage:
    """What one process knows of a store that may be away.

    Args:
        clock: for tests.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._ask_again_at: float | None = None
        self._log_again_at: float | None = None

    @property
    def is_on(self) -> bool:
        """Whether the store is not worth asking now."""
        return self._ask_again_at is not None and self._clock.monotonic() < self._ask_again_at

    def note(self, reason: str) -> None:
        """The store did not answer, or there is none."""
        now = self._clock.monotonic()
        self._ask_again_at = now + PAUSE_SECONDS
        if self._log_again_at is None or now >= self._log_again_at:
            self._log_again_at = now + LOG_SECONDS
            log.warning("circuit breakers are not asked, calls pass", reason=reason)
