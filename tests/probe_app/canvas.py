"""Probe tasks for chains, groups and chords that break in the middle, and are mended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from celery import shared_task

from taskyard import Never
from tests.probe_app.recording import record, record_run


@shared_task(name="probe.mend", bind=True, ignore_result=False, retry=Never())
def mend(self: Any, earlier: Any, key: str, mended: str) -> str:
    """Fail until the file exists; usable anywhere in a canvas."""
    record_run(self, "start", key, earlier=earlier)
    if not Path(mended).exists():
        raise RuntimeError(f"{key} is broken")
    record_run(self, "end", key)
    return key


@shared_task(name="probe.mend_secret", bind=True, ignore_result=False, retry=Never(), redact=("token",))
def mend_secret(self: Any, earlier: Any, key: str, mended: str, token: str) -> str:
    """The same, with something to hide."""
    record_run(self, "start", key, earlier=earlier, has_token=bool(token) and "*" not in token)
    if not Path(mended).exists():
        raise RuntimeError(f"{key} is broken")
    return key


@shared_task(name="probe.collect", bind=True, ignore_result=False, redact=("token",))
def collect(self: Any, earlier: Any, key: str, token: str = "") -> str:
    """Record what came before."""
    record_run(self, "end", key, earlier=earlier, token_length=len(token))
    return key


# bound, so that Celery publishes it instead of calling it with the error
@shared_task(name="probe.note_failure", bind=True, redact=("token",))
def note_failure(self: Any, task_id: str, key: str, token: str = "") -> None:
    """An error callback."""
    record("failure", key, failed=task_id, token_length=len(token))
