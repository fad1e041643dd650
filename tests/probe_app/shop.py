"""Probe tasks that a person can put right: by another argument, or by opening the warehouse."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from celery import shared_task

from taskyard import LongTask, Never
from tests.probe_app.recording import record_run

# Longer than any test looks at it.
PACK_SECONDS = 60.0
PAUSE_SECONDS = 0.05


@shared_task(name="probe.pay", bind=True, retry=Never(), redact=("card",))
def pay(self: Any, key: str, amount: int, card: str = "") -> None:
    """Fail with an amount below zero."""
    if amount < 0:
        raise ValueError("the amount is below zero")
    record_run(self, "end", key, amount=amount, card=card)


@shared_task(name="probe.ship", bind=True, retry=Never())
def ship(self: Any, key: str, gate: str) -> None:
    """Fail until the gate is open; what is broken fails then, too."""
    if not Path(gate).exists():
        raise RuntimeError("the warehouse is closed")
    if "broken" in key:
        raise LookupError("there is no such parcel")
    record_run(self, "end", key)


@shared_task(name="probe.pack", base=LongTask, bind=True, retry=Never())
def pack(self: Any, key: str) -> None:
    """Report its progress until it is cancelled."""
    pause = threading.Event()
    for _ in range(int(PACK_SECONDS / PAUSE_SECONDS)):
        self.progress(340, 1000, note=f"packing {key}")
        pause.wait(PAUSE_SECONDS)
    record_run(self, "end", key)
