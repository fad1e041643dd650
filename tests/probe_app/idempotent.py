"""Probe tasks that run once by key, and effects that happen once in the database."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

from celery import shared_task
from django.contrib.auth.models import Group

from taskyard import Exponential, Fixed, IdempotentTask, effect_once
from taskyard.retry import no_jitter
from tests.probe_app.recording import record_run

GATE_TIMEOUT_SECONDS = 60.0
SOON = Fixed(seconds=0.05, max_retries=3, reason="tests wait for it")


def _wait_for(path: str) -> None:
    pause = threading.Event()
    for _ in range(int(GATE_TIMEOUT_SECONDS / 0.02)):
        if Path(path).exists():
            return
        pause.wait(0.02)
    raise TimeoutError(f"the gate {path} was never opened")


def _hold(task: Any, key: str, gate: str) -> dict[str, Any]:
    claim = task.claim
    record_run(task, "start", key, fence=claim.fence, is_held=claim.is_held, claim=claim.key)
    _wait_for(gate)
    record_run(task, "end", key, fence=claim.fence, is_held=claim.is_held)
    return {"task_id": task.request.id, "fence": claim.fence}


@shared_task(
    name="probe.once",
    base=IdempotentTask,
    bind=True,
    ignore_result=False,
    idempotency_key="key",
    on_state_loss="refuse",
    retry=SOON,
)
def once(self: Any, key: str, gate: str) -> dict[str, Any]:
    """Hold until the gate opens."""
    return _hold(self, key, gate)


@shared_task(
    name="probe.once_or_skip",
    base=IdempotentTask,
    bind=True,
    ignore_result=False,
    idempotency_key="{key}",
    on_duplicate="skip",
    on_state_loss="run",
    retry=SOON,
)
def once_or_skip(self: Any, key: str, gate: str) -> dict[str, Any]:
    """Hold until the gate opens; whoever comes meanwhile is skipped."""
    return _hold(self, key, gate)


@shared_task(
    name="probe.once_asserting",
    base=IdempotentTask,
    bind=True,
    ignore_result=False,
    idempotency_key="key",
    retry=SOON,
)
def once_asserting(self: Any, key: str, gate: str) -> dict[str, Any]:
    """Hold until the gate opens, and go on only with the claim."""
    record_run(self, "start", key, fence=self.claim.fence)
    _wait_for(gate)
    self.claim.assert_held()
    record_run(self, "end", key, fence=self.claim.fence)
    return {"task_id": self.request.id, "fence": self.claim.fence}


@shared_task(
    name="probe.once_with_failures", base=IdempotentTask, bind=True, idempotency_key="key", retry=SOON
)
def once_with_failures(self: Any, key: str, failures: int) -> None:
    """Fail so many times, then succeed."""
    record_run(self, "start", key)
    if self.request.retries < failures:
        raise RuntimeError("planned failure")
    record_run(self, "end", key)


@shared_task(name="probe.effect_then_die", bind=True, retry=Exponential(base_seconds=0.1, spread=no_jitter))
def effect_then_die(self: Any, key: str, marker: str, place: str) -> None:
    """Have an effect in the database, and kill the process, or its worker too, inside the effect or after it.

    The file `marker` says that this has happened: the next run comes to its end.
    """
    with effect_once(key) as is_first:
        record_run(self, "start", key, is_first=bool(is_first))
        if is_first:
            Group.objects.create(name=f"{key} {self.request.id} {Group.objects.count()}")
        if place == "inside":
            _die_once(marker, self)
    if place != "inside":
        _die_once(marker, self, with_worker=place == "after, with its worker")
    record_run(self, "end", key)


@shared_task(name="probe.hold_effect", bind=True, retry=SOON)
def hold_effect(self: Any, key: str, gate: str, fails: bool = False) -> None:
    """Hold the transaction of an effect open until the gate opens, and commit or fail."""
    record_run(self, "asked", key)
    with effect_once(key) as is_first:
        record_run(self, "start", key, is_first=bool(is_first))
        if is_first:
            Group.objects.create(name=f"{key} {self.request.id}")
            _wait_for(gate)
            if fails and self.request.retries == 0:
                raise RuntimeError("planned failure")
    record_run(self, "end", key, is_first=bool(is_first))


def _die_once(marker: str, task: Any, *, with_worker: bool = False) -> None:
    path = Path(marker)
    if path.exists():
        return
    path.touch()
    record_run(task, "died", marker)
    if with_worker:
        os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
