"""The kit's own housekeeping tasks. They are scheduled by `taskyard.celery_options`."""

from __future__ import annotations

from datetime import timedelta

import structlog
from celery import shared_task

from taskyard.conf import get_settings
from taskyard.effects import purge_effects as purge_recorded_effects
from taskyard.retry import Exponential
from taskyard.tasks import tracked_rows

log = structlog.stdlib.get_logger("taskyard.operations")


@shared_task(
    name="operations.purge_effects",
    queue="low",
    retry=Exponential(max_retries=3),
    idempotent="natural",
    idempotent_reason="what is deleted stays deleted",
)
def purge_effects() -> None:
    """Forget the effects that were recorded longer ago than EFFECT_RETENTION_DAYS."""
    purged = purge_recorded_effects(timedelta(days=get_settings().effect_retention_days))
    log.info("recorded effects purged", effects=purged)


@shared_task(
    name="operations.purge_tracked_tasks",
    queue="low",
    retry=Exponential(max_retries=3),
    idempotent="natural",
    idempotent_reason="what is deleted stays deleted",
)
def purge_tracked_tasks() -> None:
    """Delete the rows of tasks that ended longer ago than TRACKED_TASK_RETENTION_DAYS."""
    purged = tracked_rows.purge(timedelta(days=get_settings().tracked_task_retention_days))
    log.info("rows of tracked tasks purged", tasks=purged)
