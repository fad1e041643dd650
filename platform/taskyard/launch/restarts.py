"""When a part that ended unexpectedly is started again, and when that is pointless."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

FIRST_DELAY_SECONDS = 0.5
MAX_DELAY_SECONDS = 8.0


@dataclass(frozen=True, slots=True)
class RestartLimits:
    """A part that ends `max_exits` times within `window_seconds` is not started again."""

    max_exits: int = 5
    window_seconds: float = 60.0


class RestartHistory:
    """The unexpected exits of one part. Moments are monotonic seconds."""

    def __init__(self, limits: RestartLimits) -> None:
        self._limits = limits
        self._exits: deque[float] = deque()

    def record_exit(self, moment: float) -> float | None:
        """Note an exit.

        Returns:
            the seconds to wait before the next start, doubled with each recent exit; None: give up.
        """
        self._exits.append(moment)
        while moment - self._exits[0] > self._limits.window_seconds:
            self._exits.popleft()
        if len(self._exits) >= self._limits.max_exits:
            return None
        return min(MAX_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2 ** (len(self._exits) - 1))
