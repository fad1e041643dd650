"""Probe tasks that a person can put right: by another argument, or by opening the warehouse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from celery import shared_task

from taskyard import Never
from tests.probe_app.recording import record_run


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
