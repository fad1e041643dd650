"""Outcomes of a run that are neither success nor failure.

A task raises them. They are not errors: nothing is logged as one, and no attempt is used up.
"""

from __future__ import annotations

from datetime import timedelta


class Outcome(Exception):
    """Root of the outcomes that a task may raise."""


class Snooze(Outcome):
    """Run this task again later, without using up an attempt.

    Args:
        delay: seconds (or a `timedelta`) until the next run; 0 or more.
        reason: for the log.

    The message goes back to its queue with the same priority, headers and attempt number. A task that
    has been snoozed for longer than `snooze_max_age_seconds` (7 days by default) is dead-lettered.

    Raises:
        ValueError: the delay is negative.
    """

    def __init__(self, delay: float | timedelta, reason: str = "") -> None:
        seconds = delay.total_seconds() if isinstance(delay, timedelta) else float(delay)
        if seconds < 0:
            raise ValueError(
                f"Snooze cannot go back in time: {seconds} s. Give a delay of 0 or more seconds."
            )
        self.delay_seconds = seconds
        self.reason = reason
        super().__init__(f"snoozed for {seconds:g} s" + (f": {reason}" if reason else ""))


class Cancel(Outcome):
    """Never run this task again: there is nothing left to do.

    The message is acknowledged, the state (where results are on) becomes REVOKED, and no dead letter is
    written: a decision of the task, not a failure.

    Args:
        reason: for the log and the stored state.
    """

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        super().__init__(reason or "cancelled by the task")
