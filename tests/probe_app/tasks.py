"""Well-behaved probe tasks; those that misbehave are in `faults.py`, imported here for Celery."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from celery import shared_task
from django.db import connection, transaction

from taskyard import Cancel, Fixed, Never, Snooze
from taskyard.correlation import current_correlation_id
from tests.probe_app import (
    abnormal,
    breaking,
    canvas,
    endings,
    exclusive,
    faults,
    idempotent,
    long_tasks,
    secrets,
    shop,
)
from tests.probe_app.recording import record_run

__all__ = [
    "abnormal",
    "breaking",
    "canvas",
    "endings",
    "exclusive",
    "faults",
    "idempotent",
    "long_tasks",
    "secrets",
    "shop",
]

GATE_TIMEOUT_SECONDS = 60.0
SOON = Fixed(seconds=0.05, max_retries=3, reason="tests wait for it")


def wait_for_gate(path: str) -> None:
    """Return when the file exists."""
    pause = threading.Event()
    for _ in range(int(GATE_TIMEOUT_SECONDS / 0.02)):
        if Path(path).exists():
            return
        pause.wait(0.02)
    raise TimeoutError(f"the gate {path} was never opened")


@shared_task(name="probe.add", ignore_result=False)
def add(x: int, y: int) -> int:
    return x + y


@shared_task(name="probe.record", bind=True)
def record(self: Any, key: str) -> None:
    record_run(self, "start", key)
    record_run(self, "end", key)


@shared_task(name="probe.limited", bind=True, soft_time_limit=11, time_limit=12)
def limited(self: Any, key: str) -> None:
    record_run(self, "end", key)


@shared_task(name="probe.hold", bind=True)
def hold(self: Any, key: str, gate: str) -> None:
    """Run until the gate opens."""
    record_run(self, "start", key)
    wait_for_gate(gate)
    record_run(self, "end", key)


@shared_task(name="probe.hold_secret", bind=True, redact=("card_number",))
def hold_secret(self: Any, key: str, gate: str, card_number: str, note: str = "") -> None:
    record_run(self, "start", key)
    wait_for_gate(gate)
    record_run(self, "end", key)


@shared_task(name="probe.fail_secret", bind=True, redact=("card_number",), retry=SOON)
def fail_secret(self: Any, key: str, card_number: str, note: str = "") -> None:
    record_run(self, "start", key)
    raise RuntimeError("the payment was refused")


@shared_task(name="probe.retry", bind=True, retry=SOON)
def retry(self: Any, key: str, failures: int) -> None:
    """Fail so many times, then succeed."""
    record_run(self, "start", key)
    if self.request.retries < failures:
        raise RuntimeError(f"planned failure number {self.request.retries + 1}")
    record_run(self, "end", key)


@shared_task(name="probe.retry_after_gate", bind=True, retry=SOON)
def retry_after_gate(self: Any, key: str, gate: str) -> None:
    """Fail once the gate opens, in the first delivery only: the file `<gate>.done` marks it."""
    record_run(self, "start", key)
    if not Path(f"{gate}.done").exists():
        wait_for_gate(gate)
        Path(f"{gate}.done").touch()
        raise RuntimeError("planned failure")
    record_run(self, "end", key)


@shared_task(name="probe.retry_in_transaction", bind=True, retry=Never())
def retry_in_transaction(self: Any, key: str) -> None:
    record_run(self, "start", key)
    with transaction.atomic():
        if self.request.retries == 0:
            raise self.retry(countdown=0.05)
    record_run(self, "end", key)


@shared_task(name="probe.snooze", bind=True, retry=Never())
def snooze(self: Any, key: str, marker: str, times: int) -> None:
    """Snooze so many times; the file counts, since the attempt number must not."""
    record_run(self, "start", key)
    path = Path(marker)
    so_far = path.stat().st_size if path.exists() else 0
    if so_far < times:
        with path.open("a") as file:
            file.write("x")
        raise Snooze(0.05, "not yet")
    record_run(self, "end", key)


@shared_task(name="probe.cancel", bind=True, ignore_result=False)
def cancel(self: Any, key: str) -> None:
    record_run(self, "start", key)
    raise Cancel("nothing left to do")


@shared_task(name="probe.trace", bind=True, ignore_result=False, retry=SOON)
def trace(self: Any, earlier: Any, key: str, failures: int = 0) -> str:
    """Record the correlation id that code inside the task sees; usable anywhere in a canvas."""
    record_run(self, "start", key, current=current_correlation_id())
    if self.request.retries < failures:
        raise RuntimeError("planned failure")
    return key


@shared_task(name="probe.start_family", bind=True, ignore_result=False)
def start_family(self: Any, earlier: Any, key: str) -> None:
    """Publish children of each kind from inside a task."""
    from celery import chain, chord, group

    record_run(self, "start", key, current=current_correlation_id())
    trace.delay(None, f"{key}.child")
    chain(trace.si(None, f"{key}.chain.1"), trace.s(f"{key}.chain.2")).delay()
    group(trace.si(None, f"{key}.group.{i}") for i in range(2)).delay()
    chord([trace.si(None, f"{key}.chord.{i}") for i in range(2)], trace.s(f"{key}.chord.body")).delay()
    trace.delay(None, f"{key}.retried", failures=1)
    faults.fail.delay(f"{key}.dead", "value_error")


@shared_task(name="probe.read_backend", bind=True)
def read_backend(self: Any, key: str) -> None:
    """Record the process on PostgreSQL's side of this process's connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        record_run(self, "end", key, backend=cursor.fetchone()[0])


@shared_task(
    name="probe.fail_then_die", bind=True, retry=Fixed(seconds=0.05, max_retries=8, reason="tests wait")
)
def fail_then_die(self: Any, key: str, failures: int) -> None:
    """Use up retries first, then lose the process."""
    record_run(self, "start", key)
    if self.request.retries < failures:
        raise RuntimeError("planned failure")
    faults.kill_own_process()
