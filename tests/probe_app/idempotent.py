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


def _wait_for(*paths: str) -> None:
    """Return when one of the files exists."""
    pause = threading.Event()
    for _ in range(int(GATE_TIMEOUT_SECONDS / 0.02)):
        if any(Path(path).exists() for path in paths):
            return
        pause.wait(0.02)
    raise TimeoutError(f"the gate {paths[0]} was never opened")


def _hold(task: Any, key: str, gate: str, *, asserts: bool = False) -> dict[str, Any]:
    claim = task.claim
    record_run(task, "start", key, fence=claim.fence, is_held=claim.is_held, claim=claim.key)
    # two runs of one message have the same gate; this one lets one of them go on
    _wait_for(gate, f"{gate}.{claim.fence}")
    if asserts:
        claim.assert_held()
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
    return _hold(self, key, gate, asserts=True)


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
    """Have an effect in the database, and kill the process "inside" of it or "after" it, in the first run."""
    with effect_once(key) as is_first:
        record_run(self, "start", key, is_first=bool(is_first))
        if is_first:
            _have_effect(self, key)
        if place == "inside":
            _die_once(marker)
    if place == "after":
        _die_once(marker)
    record_run(self, "end", key)


@shared_task(name="probe.effect_then_hold", bind=True, retry=SOON)
def effect_then_hold(self: Any, key: str, gate: str) -> None:
    """Have an effect in the database, and hold until the gate opens."""
    with effect_once(key) as is_first:
        if is_first:
            _have_effect(self, key)
    record_run(self, "start", key, is_first=bool(is_first))
    _wait_for(gate)
    record_run(self, "end", key)


@shared_task(name="probe.hold_effect", bind=True, retry=SOON)
def hold_effect(self: Any, key: str, gate: str, fails: bool = False) -> None:
    """Hold the transaction of an effect open until the gate opens, and commit or fail."""
    record_run(self, "asked", key)
    with effect_once(key) as is_first:
        record_run(self, "start", key, is_first=bool(is_first))
        if is_first:
            _have_effect(self, key)
            _wait_for(gate)
            if fails and self.request.retries == 0:
                raise RuntimeError("planned failure")
    record_run(self, "end", key, is_first=bool(is_first))


def _have_effect(task: Any, key: str) -> None:
    # as many groups as effects, whatever their number
    Group.objects.create(name=f"{key} {Group.objects.count()} {task.request.id}")


def _die_once(marker: str) -> None:
    path = Path(marker)
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
