"""Scheduled: each slot runs once; a missed slot is alerted and the next one runs."""

from __future__ import annotations

from datetime import UTC, date, timedelta
from typing import Any

import structlog
from celery import shared_task

from tasks.reports import services, sessions
from taskyard import Exponential
from taskyard.clock import SYSTEM_CLOCK
from taskyard.tasks.outcome import age_seconds

log = structlog.stdlib.get_logger(__name__)


@shared_task(
    name="reports.build_nightly_report",
    bind=True,
    queue="default",
    retry=Exponential(max_retries=3, never_on=(ValueError,)),
    idempotent="natural",
    idempotent_reason="the same day gives the same file under the same name",
)
def build_nightly_report(self: Any, day: str | None = None) -> None:
    """Write the report of a day to the default storage.

    Args:
        day: ISO date in UTC, of a day that is over; the day before the task was published when None, so that
            a late or repeated run still reports the day of its slot.
    """
    name = services.build_report(day_before_publish(self.request) if day is None else date.fromisoformat(day))
    log.info("report written", report=name)


@shared_task(
    name="reports.clear_expired_sessions",
    queue="default",
    retry=Exponential(max_retries=3),
    idempotent="natural",
    idempotent_reason="a removed session stays removed",
)
def clear_expired_sessions() -> None:
    """Remove the sessions that have expired, in chunks."""
    log.info("expired sessions removed", count=sessions.clear_expired())


def day_before_publish(request: Any) -> date:
    """Return the day before the first publish of a message; before now where the message does not say."""
    published_at = SYSTEM_CLOCK.now() - timedelta(seconds=age_seconds(request))
    return published_at.astimezone(UTC).date() - timedelta(days=1)
