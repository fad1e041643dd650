"""The history of runs: one JSON line for each start and end, appended in one write so that no two mix."""

from __future__ import annotations

import json
import os
import time
from typing import Any

# What the kit's users see of a message; compared between the runs of one task.
KEPT_HEADERS = ("published_at", "first_published_at", "worker_losses", "tenant")


def record(event: str, key: str, **fields: Any) -> None:
    """Append one record to the file named by PROBE_HISTORY."""
    line = (
        json.dumps({"event": event, "key": key, "pid": os.getpid(), "at": time.monotonic(), **fields}) + "\n"
    )
    descriptor = os.open(os.environ["PROBE_HISTORY"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def record_run(task: Any, event: str, key: str, **fields: Any) -> None:
    """Append one record with what the task knows about its run."""
    request = task.request
    delivery = request.delivery_info or {}
    headers = request.headers or {}
    record(
        event,
        key,
        task=task.name,
        task_id=request.id,
        queue=delivery.get("routing_key"),
        priority=delivery.get("priority"),
        retries=request.retries,
        time_limits=list(request.timelimit or (None, None)),
        correlation_id=request.correlation_id,
        headers={name: headers[name] for name in KEPT_HEADERS if name in headers},
        **fields,
    )
