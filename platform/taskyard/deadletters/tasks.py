"""The kit's own tasks around dead letters. They are scheduled by `taskyard.celery_options`."""

from __future__ import annotations

from datetime import timedelta

import structlog
from celery import shared_task

from taskyard.conf import get_settings
from taskyard.deadletters import bulk_slices, counts, notifications, replay, retention
from taskyard.retry import Exponential

log = structlog.stdlib.get_logger("taskyard.dead_letter")

QUEUE = "low"
_RETRY = Exponential(max_retries=3)


@shared_task(
    name="deadletters.replay_in_bulk",
    queue=QUEUE,
    # as long as the database is away; then `deadletters.recover` finds it
    retry=Exponential(max_retries=None, max_age_seconds=3600.0, cap_seconds=60.0),
    idempotent="natural",
    idempotent_reason="a slice is begun once, and a letter is replayed once",
)
def replay_in_bulk(bulk_id: int, number: int) -> None:
    """Do one slice of a bulk replay; see `taskyard.deadletters.bulk`."""
    bulk_slices.work_slice(bulk_id, number)


@shared_task(
    name="deadletters.recover",
    queue=QUEUE,
    retry=_RETRY,
    on_exhausted="drop",  # the next one comes in a minute
    idempotent="natural",
    idempotent_reason="what is recovered is no longer found",
)
def recover() -> None:
    """Publish the replays, and go on with the bulk replays, whose process has died."""
    replays, bulks = replay.recover_replays(), bulk_slices.recover_bulk_replays()
    if replays or bulks:
        log.info("replays recovered", replays=replays, bulk_replays=bulks)


@shared_task(
    name="deadletters.purge_resolved",
    queue=QUEUE,
    retry=_RETRY,
    idempotent="natural",
    idempotent_reason="what is deleted stays deleted",
)
def purge_resolved() -> None:
    """Delete what was replayed or discarded longer ago than DEAD_LETTER_RETENTION_DAYS, and count again."""
    older_than = timedelta(days=get_settings().dead_letter_retention_days)
    purged = retention.purge_resolved(older_than=older_than)
    bulks, repaired = retention.purge_bulk_replays(older_than=older_than), counts.repair()
    log.info("resolved dead letters purged", letters=purged, bulk_replays=bulks, counts_repaired=repaired)


@shared_task(
    name=notifications.MAIL_TASK,
    queue=QUEUE,
    retry=_RETRY,
    on_exhausted="drop",  # the next dead letter asks for the next mail
)
def mail_to_admins(fingerprint: str, letter_id: int, minutes: int) -> None:  # noqa: ARG001 - equal calls
    """Tell ADMINS of a fault; see `taskyard.deadletters.notifications`."""
    notifications.send_mail_to_admins(letter_id, minutes)
