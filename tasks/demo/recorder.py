"""Writes the journal from Celery's signals, for the tasks of a demonstration only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from celery import signals, states

from tasks.demo.journal import Entry, Kind, append, run_of
from taskyard.clock import SYSTEM_CLOCK
from taskyard.correlation import HEADER

_KINDS: dict[str, Kind] = {
    states.SUCCESS: "succeeded",
    states.RETRY: "retried",
    states.FAILURE: "failed",
    states.IGNORED: "cancelled",
}


def connect() -> None:
    """Connect the recorder in this process and its children."""
    signals.after_task_publish.connect(_on_publish, weak=False, dispatch_uid="demo.publish")
    signals.task_prerun.connect(_on_start, weak=False, dispatch_uid="demo.start")
    signals.task_postrun.connect(_on_end, weak=False, dispatch_uid="demo.end")


def _on_publish(sender: str, headers: Mapping[str, Any], routing_key: str, **_: Any) -> None:
    run = run_of(headers.get(HEADER))
    if run is not None:
        append(run, Entry("sent", headers["id"], sender, routing_key))


def _on_start(task: Any, **_: Any) -> None:
    request = task.request
    if run_of(request.correlation_id) is None:
        return
    published_at = (request.headers or {}).get("published_at")
    is_first = not request.retries and not request.eta
    request.demo_started = SYSTEM_CLOCK.monotonic()
    request.demo_wait = (
        max(0.0, SYSTEM_CLOCK.now().timestamp() - float(published_at)) if is_first and published_at else None
    )


def _on_end(task: Any, task_id: str, state: str | None, retval: Any, **_: Any) -> None:
    request = task.request
    run = run_of(request.correlation_id)
    kind = _KINDS.get(state or "")
    if run is None or kind is None:
        return
    if kind == "retried" and getattr(retval, "snoozed", False):
        kind = "snoozed"
    duration = SYSTEM_CLOCK.monotonic() - request.demo_started
    queue = (request.delivery_info or {}).get("routing_key") or ""
    append(run, Entry(kind, task_id, task.name, queue, wait=request.demo_wait, run=duration))
