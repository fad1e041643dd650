"""The probe tasks on the kit. `tests/bench/stock_app.py` has the same ones on plain Celery."""

from __future__ import annotations

import time

from celery import shared_task

from tests.bench.probe.record import record_effect_once, record_start


@shared_task(
    name="probe.touch", queue="default", idempotent="natural", idempotent_reason="It only counts itself."
)
def touch(number: int, seconds: float) -> None:
    """Count a run, then take some time."""
    record_start(number)
    time.sleep(seconds)


@shared_task(
    name="probe.touch_once",
    queue="default",
    idempotent="natural",
    idempotent_reason="Its effect is set once.",
)
def touch_once(number: int, seconds: float) -> None:
    """Count a run, take some time, then apply an effect that can be applied once only."""
    record_start(number)
    time.sleep(seconds)
    record_effect_once(number)


@shared_task(name="probe.noop", queue="default", idempotent="natural", idempotent_reason="It does nothing.")
def noop(number: int, seconds: float = 0.0) -> None:
    """Do nothing: what is left is the cost of the task system."""


@shared_task(
    name="probe.urgent", queue="critical", idempotent="natural", idempotent_reason="It only counts itself."
)
def urgent(number: int, seconds: float = 0.0) -> None:
    """Note when it started."""
    record_start(number)


@shared_task(name="probe.bulk", queue="bulk", idempotent="natural", idempotent_reason="It does nothing.")
def bulk(number: int, seconds: float) -> None:
    """Keep a bulk worker busy."""
    time.sleep(seconds)
