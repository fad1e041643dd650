"""Probe tasks that run one at a time, or whose equal calls are published or run once."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from celery import shared_task

from taskyard import Cancel, Never, SingletonTask, Snooze
from tests.probe_app.recording import record_run

GATE_TIMEOUT_SECONDS = 60.0


def pass_gate(path: str) -> None:
    """Return when the file exists, at once without a path."""
    give_up_at = time.monotonic() + GATE_TIMEOUT_SECONDS
    while path and not Path(path).exists():
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"the gate {path} was never opened")
        time.sleep(0.02)


class Exclusive(SingletonTask):
    """What the singleton probes have in common."""

    abstract = True
    singleton_key = "key"
    snooze_seconds = 0.4

    def hold(self, key: str, value: Any, gate: str, seconds: float = 0.0) -> None:
        """Record that the run is inside, and how it found its lock at the end."""
        record_run(self, "start", key, value=value, fence=self.lease.fence)
        pass_gate(gate)
        time.sleep(seconds)
        record_run(self, "end", key, value=value, fence=self.lease.fence, is_held=self.lease.is_held)


@shared_task(name="probe.one_at_a_time", base=Exclusive, bind=True)
def one_at_a_time(self: Any, key: str, value: Any = None, gate: str = "", seconds: float = 0.0) -> None:
    self.hold(key, value, gate, seconds)


@shared_task(name="probe.skip_if_running", base=Exclusive, bind=True, on_conflict="skip", ignore_result=False)
def skip_if_running(self: Any, key: str, value: Any = None, gate: str = "") -> None:
    self.hold(key, value, gate)


@shared_task(name="probe.newest_waits", base=Exclusive, bind=True, on_conflict="replace", ignore_result=False)
def newest_waits(self: Any, key: str, value: Any = None, gate: str = "") -> None:
    self.hold(key, value, gate)


@shared_task(name="probe.exclusive_end", base=Exclusive, bind=True, retry=Never())
def exclusive_end(self: Any, key: str, kind: str) -> None:
    """End in the way that is asked for, while it has the lock."""
    record_run(self, "start", key, value=kind)
    end(kind)


@shared_task(name="probe.throttled", bind=True, unique_for=60, unique_key="key", ignore_result=False)
def throttled(self: Any, key: str, value: Any = None, gate: str = "") -> None:
    record_run(self, "start", key, value=value)
    pass_gate(gate)
    record_run(self, "end", key, value=value)


@shared_task(
    name="probe.throttled_end", bind=True, unique_for=60, unique_key="key", unique_until="end", retry=Never(),
    soft_time_limit=1, time_limit=2,
)  # fmt: skip
def throttled_end(self: Any, key: str, kind: str) -> None:
    """End in the way that is asked for."""
    record_run(self, "start", key, value=kind)
    end(kind)


@shared_task(name="probe.debounced", bind=True, unique_for=1, unique_key="key", unique="debounce")
def debounced(self: Any, key: str, value: Any = None) -> None:
    record_run(self, "start", key, value=value)
    record_run(self, "end", key, value=value)


@shared_task(
    name="probe.replaced", bind=True, unique_for=60, unique_key="key", unique="replace", ignore_result=False
)
def replaced(self: Any, key: str, value: Any = None) -> None:
    record_run(self, "start", key, value=value)
    record_run(self, "end", key, value=value)


def end(kind: str) -> None:
    """End this run."""
    if kind == "success":
        return
    if kind == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "overrun":
        give_up_at = time.monotonic() + 30
        while time.monotonic() < give_up_at:
            try:
                time.sleep(0.1)
            except BaseException:
                # swallows its soft limit, so that the hard one ends it
                continue
    if kind == "cancel":
        raise Cancel("nothing left to do")
    if kind == "snooze":
        raise Snooze(3600, "not yet")
    raise RuntimeError("planned failure")
