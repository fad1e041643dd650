"""Long probe tasks, and plain ones that are cancelled or swallow their soft limit."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from celery import shared_task
from django.db import transaction

from taskyard import Fixed, LongTask, Never, Snooze
from tests.probe_app.recording import record_run

# A task that holds on for longer than any limit in the tests, if nothing stops it.
HOLD_SECONDS = 60.0
PAUSE_SECONDS = 0.02
SOON = Fixed(seconds=0.05, max_retries=2, reason="tests wait for it")
LATER = Fixed(seconds=300, max_retries=2, reason="tests look at what waits")


def _turns() -> Any:
    pause = threading.Event()
    for _ in range(int(HOLD_SECONDS / PAUSE_SECONDS)):
        yield
        pause.wait(PAUSE_SECONDS)


@shared_task(name="probe.long", base=LongTask, bind=True, retry=SOON, ignore_result=False)
def long(self: Any, key: str, gate: str, total: int = 10) -> int:
    """Go through steps, one file of the gate for each; the checkpoint is the number of the next step."""
    first = self.resume(default=0)
    record_run(self, "start", key, first=first)
    for step in range(first, total):
        for _ in _turns():
            self.progress(step, total, note=f"step {step}")
            if Path(f"{gate}.{step}").exists() or Path(gate).exists():
                break
        record_run(self, "step", key, step=step)
        self.checkpoint(step + 1)
    record_run(self, "end", key)
    return total


@shared_task(name="probe.long_polite", base=LongTask, bind=True, retry=Never(), ignore_result=False)
def long_polite(self: Any, key: str) -> str:
    """Ask whether it is cancelled, put things in order, and return."""
    record_run(self, "start", key)
    for _ in _turns():
        if self.is_cancelled():
            record_run(self, "end", key)
            break
    return "in order"


@shared_task(name="probe.long_deaf", base=LongTask, bind=True, retry=Never(), ignore_result=False)
def long_deaf(self: Any, key: str) -> str:
    """Report in a loop that lets no exception through, until the first one has come."""
    record_run(self, "start", key)
    for _ in _turns():
        try:
            self.progress(1)
        except Exception as error:
            record_run(self, "swallowed", key, error=type(error).__name__)
            break
    record_run(self, "end", key)
    return "as if nothing had happened"


@shared_task(name="probe.long_transaction", base=LongTask, bind=True, retry=Never())
def long_transaction(self: Any, key: str, gate: str) -> None:
    """Leave a checkpoint in a transaction that lasts until the gate opens, then report."""
    with transaction.atomic():
        self.checkpoint(1)
        record_run(self, "start", key)
        for _ in _turns():
            if Path(gate).exists():
                break
    for _ in _turns():
        self.progress(2)


@shared_task(name="probe.snooze_for_long", bind=True, retry=Never())
def snooze_for_long(self: Any, key: str) -> None:
    record_run(self, "start", key)
    raise Snooze(3600, "not today")


@shared_task(name="probe.long_fail", base=LongTask, bind=True, retry=SOON)
def long_fail(self: Any, key: str, failures: int) -> None:
    """Leave a checkpoint, then fail; so many times."""
    record_run(self, "start", key, first=self.resume(default=0))
    self.checkpoint(self.request.retries + 1)
    self.progress(self.request.retries + 1, note="failing")
    if self.request.retries < failures:
        raise RuntimeError("planned failure")
    record_run(self, "end", key)


@shared_task(
    name="probe.long_patient",
    base=LongTask,
    bind=True,
    ignore_result=False,
    retry=Fixed(seconds=0.5, max_retries=60, reason="tests wait for it"),
)
def long_patient(self: Any, key: str, gate: str) -> str:
    """Report until the gate opens, then leave a checkpoint."""
    record_run(self, "start", key)
    for _ in _turns():
        self.progress(7, 10, note="working")
        if Path(gate).exists():
            break
    self.checkpoint("done")
    record_run(self, "end", key)
    return "checkpoint stored"


@shared_task(name="probe.fail_later", bind=True, retry=LATER)
def fail_later(self: Any, key: str) -> None:
    """Fail, and wait long for the next run."""
    record_run(self, "start", key)
    raise RuntimeError("planned failure")


@shared_task(name="probe.stubborn", bind=True, retry=SOON, ignore_result=False)
def stubborn(self: Any, key: str, gate: str) -> str:
    """Let no exception through, and return when the gate opens."""
    record_run(self, "start", key)
    while not Path(gate).exists():
        try:
            threading.Event().wait(PAUSE_SECONDS)
        except Exception as error:
            record_run(self, "swallowed", key, error=type(error).__name__)
    record_run(self, "end", key)
    return "as if nothing had happened"


@shared_task(name="probe.swallow", bind=True, retry=SOON, soft_time_limit=0.3, time_limit=30)
def swallow(self: Any, key: str) -> None:
    """Swallow the soft limit and return at once."""
    record_run(self, "start", key)
    try:
        for _ in _turns():
            continue
    except Exception:
        record_run(self, "swallowed", key)
    record_run(self, "end", key)


@shared_task(
    name="probe.orderly", bind=True, retry=SOON, soft_time_limit=0.3, time_limit=30, handles_soft_limit=True
)
def orderly(self: Any, key: str) -> None:
    """The same, on purpose."""
    swallow.run.__func__(self, key)


@shared_task(name="probe.part", bind=True, ignore_result=False, retry=Never())
def part(self: Any, key: str, gate: str) -> str:
    """A part of a canvas: holds until the gate opens."""
    record_run(self, "start", key)
    for _ in _turns():
        if Path(gate).exists():
            break
    record_run(self, "end", key)
    return key


@shared_task(name="probe.after", bind=True, ignore_result=False, retry=Never())
def after(self: Any, *args: Any, key: str) -> str:
    """What follows in a canvas: next link, body, errback."""
    record_run(self, "start", key)
    record_run(self, "end", key)
    return key
