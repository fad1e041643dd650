"""Probe tasks that end in what is no `Exception`."""

from __future__ import annotations

import asyncio
from typing import Any

from celery import shared_task

from taskyard import Fixed, IdempotentTask
from tests.probe_app.recording import record_run

SOON = Fixed(seconds=0.05, max_retries=2, reason="tests wait for it")


class Panic(BaseException):
    """As bindings of other languages raise where their code has given up."""


ENDINGS: dict[str, BaseException] = {
    "cancelled coroutine": asyncio.CancelledError("the loop is closing"),
    "group": BaseExceptionGroup("two of them", [Panic("one"), ValueError("two")]),
    "generator": GeneratorExit("closed"),
    "panic": Panic("index out of bounds"),
}


@shared_task(name="probe.end_abnormally", bind=True, retry=SOON)
def end_abnormally(self: Any, key: str, ending: str, failures: int = 99) -> None:
    record_run(self, "start", key)
    if self.request.retries < failures:
        raise ENDINGS[ending]
    record_run(self, "end", key)


@shared_task(
    name="probe.end_abnormally_once", bind=True, base=IdempotentTask, idempotency_key="key", retry=SOON
)
def end_abnormally_once(self: Any, key: str, ending: str) -> None:
    """Fail in the first run only; its claim must be free in the second."""
    record_run(self, "start", key)
    if self.request.retries < 1:
        raise ENDINGS[ending]
    record_run(self, "end", key)
