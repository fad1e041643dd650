"""Probe tasks that misbehave, each in the way its name says."""

from __future__ import annotations

import os
import resource
import signal
import threading
from typing import Any

from celery import shared_task
from celery.exceptions import SoftTimeLimitExceeded

from taskyard import Exponential, Never
from taskyard.retry import no_jitter
from tests.probe_app.recording import record_run

HUGE = 5 * 1024 * 1024
# A task that holds on for longer than any limit in the tests, if nothing stops it.
TOO_LONG_SECONDS = 20.0


class Unpicklable(Exception):
    """Holds what no process can send to another."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


class ArgumentsRequired(Exception):
    """Cannot be made again from its `args`, as unpickling does."""

    def __init__(self, code: int, *, detail: str) -> None:
        super().__init__(f"code {code}: {detail}")


def kill_own_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _exhaust_memory() -> None:
    """Run out of memory, really, without taking the machine along; the limit is taken away again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (512 * 1024 * 1024, hard))
    hoard = []
    try:
        while True:
            hoard.append(bytearray(64 * 1024 * 1024))
    finally:
        hoard.clear()
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _raise(kind: str) -> None:
    match kind:
        case "value_error":
            raise ValueError("a plain error")
        case "unpicklable":
            raise Unpicklable("holds a lock")
        case "arguments_required":
            raise ArgumentsRequired(7, detail="needs its arguments")
        case "huge_message":
            raise RuntimeError("x" * HUGE)
        case "memory":
            _exhaust_memory()
        case "system_exit":
            raise SystemExit(3)
        case _:
            raise LookupError(kind)


@shared_task(name="probe.fail", bind=True, retry=Never())
def fail(self: Any, key: str, kind: str) -> None:
    record_run(self, "start", key)
    _raise(kind)


# no_jitter, so that the tests know the longest time
@shared_task(
    name="probe.die", bind=True, retry=Exponential(base_seconds=0.1, max_retries=3, spread=no_jitter)
)
def die(self: Any, key: str) -> None:
    """Kill the own process, as the kernel does to one that takes too much memory."""
    record_run(self, "start", key)
    kill_own_process()


@shared_task(
    name="probe.die_with_secret",
    bind=True,
    redact=("card_number",),
    retry=Exponential(base_seconds=0.1, max_retries=3, spread=no_jitter),
)
def die_with_secret(self: Any, key: str, card_number: str) -> None:
    record_run(self, "start", key)
    kill_own_process()


@shared_task(
    name="probe.die_then_fail",
    bind=True,
    retry=Exponential(base_seconds=0.1, max_retries=3, spread=no_jitter),
)
def die_then_fail(self: Any, key: str) -> None:
    """Lose the process in the first run, and fail in each one after it."""
    record_run(self, "start", key)
    if "worker_losses" not in (self.request.headers or {}):
        kill_own_process()
    raise RuntimeError("planned failure")


@shared_task(name="probe.overrun", bind=True, retry=Never())
def overrun(self: Any, key: str) -> None:
    """Swallow the soft limit and go on."""
    _hold_on(self, key)


@shared_task(name="probe.overrun_with_limits", bind=True, retry=Never(), soft_time_limit=0.5, time_limit=1.5)
def overrun_with_limits(self: Any, key: str) -> None:
    """The same, with limits of its own."""
    _hold_on(self, key)


def _hold_on(task: Any, key: str) -> None:
    record_run(task, "start", key)
    pause = threading.Event()
    for _ in range(int(TOO_LONG_SECONDS / 0.05)):
        try:
            pause.wait(0.05)
        except SoftTimeLimitExceeded:
            record_run(task, "soft_limit", key)
    record_run(task, "end", key)
