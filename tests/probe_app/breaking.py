"""Probe tasks that call a partner: a directory, in which the test says how the partner is."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from celery import shared_task

from taskyard import Breaker, Fixed, breaker
from tests.probe_app.recording import record_run

HOLD_TIMEOUT_SECONDS = 60.0
# As short as the tests can bear.
QUICK = {
    "minimum_calls": 4,
    "window_seconds": 60.0,
    "open_seconds": 1.0,
    "max_open_seconds": 1.5,
    "recovery_seconds": 2.0,
}
OFTEN = Fixed(seconds=0.1, max_retries=50, reason="tests wait for it")


class PartnerDownError(Exception):
    """The partner does not answer."""


def call_partner(task: Any, key: str, partner: str) -> None:
    """Call it; while the file `hold` is there it takes its time, while `down` is there it fails."""
    record_run(task, "start", key)
    pause = threading.Event()
    for _ in range(int(HOLD_TIMEOUT_SECONDS / 0.02)):
        if not Path(partner, "hold").exists():
            break
        pause.wait(0.02)
    if Path(partner, "down").exists():
        record_run(task, "failed", key)
        raise PartnerDownError(f"no answer for {key}")
    record_run(task, "end", key)


@shared_task(name="probe.call_partner", bind=True, retry=OFTEN, breaker=Breaker("partner", **QUICK))
def call(self: Any, key: str, partner: str) -> None:
    call_partner(self, key, partner)


@shared_task(name="probe.call_host", bind=True, retry=OFTEN)
def call_host(self: Any, key: str, partner: str, host: str) -> None:
    """Know only at run time whom to call."""
    with breaker(Breaker("host:{host}", **QUICK), host=host):
        call_partner(self, key, partner)
