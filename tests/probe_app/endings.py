"""Probe tasks that end for good, each for the reason that its name says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from celery import shared_task
from celery.exceptions import Reject
from django.db import connection, transaction

from taskyard import Fixed, Never, Snooze
from tests.probe_app.recording import record_run


class PlannedError(Exception):
    """What these tasks fail with."""


@shared_task(
    name="probe.end_by_age", bind=True, retry=Fixed(seconds=1, max_retries=None, max_age_seconds=3600)
)
def end_by_age(self: Any, key: str) -> None:
    record_run(self, "start", key)
    raise PlannedError("still not there")


@shared_task(name="probe.end_by_count", bind=True, retry=Fixed(seconds=1, max_retries=0))
def end_by_count(self: Any, key: str) -> None:
    record_run(self, "start", key)
    raise PlannedError("enough")


@shared_task(name="probe.end_at_once", bind=True, retry=Fixed(seconds=1, never_on=(PlannedError,)))
def end_at_once(self: Any, key: str) -> None:
    record_run(self, "start", key)
    raise PlannedError("no use")


@shared_task(name="probe.end_by_reject", bind=True)
def end_by_reject(self: Any, key: str) -> None:
    record_run(self, "start", key)
    raise Reject("not mine", requeue=False)


@shared_task(name="probe.end_by_snoozes", bind=True)
def end_by_snoozes(self: Any, key: str) -> None:
    record_run(self, "start", key)
    raise Snooze(3600, "not yet")


@shared_task(name="probe.leave_transaction_open", bind=True, retry=Never())
def leave_transaction_open(self: Any, key: str) -> None:
    """Fail in a transaction that nobody will end."""
    record_run(self, "start", key)
    transaction.atomic().__enter__()
    raise PlannedError("in a transaction")


@shared_task(name="probe.leave_autocommit_off", bind=True, retry=Never())
def leave_autocommit_off(self: Any, key: str) -> None:
    """Fail on a connection that commits nothing by itself."""
    record_run(self, "start", key)
    connection.ensure_connection()
    connection.set_autocommit(False)
    raise PlannedError("without autocommit")


@shared_task(name="probe.fail_until", bind=True, retry=Never())
def fail_until(self: Any, key: str, marker: str) -> None:
    """Fail until the file is there: what a person has mended."""
    record_run(self, "start", key)
    if not Path(marker).exists():
        raise PlannedError("not mended yet")
    record_run(self, "end", key)


if os.environ.get("PROBE_LATE_CODE"):

    @shared_task(name="probe.late_code", bind=True)
    def late_code(self: Any, key: str) -> None:
        """Known only to the processes of a later deployment."""
        record_run(self, "end", key)
