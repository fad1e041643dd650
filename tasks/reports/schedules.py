"""The schedules that the reference tasks come with. All times are UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

HOUR_SECONDS = 3600
DAY_SECONDS = 24 * HOUR_SECONDS


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a task is published.

    Args:
        task: the task's name.
        crontab: minute, hour, day of month, month, day of week; in UTC.
        expire_seconds: a message that waited this long is not run; one interval, so that slots never pile up.
        description: for people, in the admin.
    """

    task: str
    crontab: str
    expire_seconds: int
    description: str = ""


SCHEDULES: Mapping[str, Schedule] = MappingProxyType(
    {
        "nightly-report": Schedule(
            task="reports.build_nightly_report",
            crontab="15 0 * * *",
            expire_seconds=DAY_SECONDS,
            description="The orders and payments of the day that has just ended.",
        ),
        "clear-expired-sessions": Schedule(
            task="reports.clear_expired_sessions",
            crontab="40 * * * *",
            expire_seconds=HOUR_SECONDS,
            description="Sessions that have expired.",
        ),
    }
)
