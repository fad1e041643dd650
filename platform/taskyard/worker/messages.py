"""The failures of messages that have not become a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog
from celery.app.task import Context
from kombu.exceptions import KombuError
from kombu.serialization import loads

from taskyard.correlation import HEADER as CORRELATION_HEADER
from taskyard.tasks import attempts, failures

log = structlog.stdlib.get_logger("taskyard.worker")

_ACCEPTED = frozenset({"application/json"})
# Not kept among the headers: texts of the arguments, in which whoever has published it may have masked
# nothing, and what has a field of its own.
_LEFT_OUT = ("argsrepr", "kwargsrepr", attempts.HEADER)


def failure_of_message(message: Any, *, reason: str, error: str) -> failures.Failure:
    """Return the failure of a message that did not become a run; its arguments stay in `raw`, undecoded."""
    headers = message.headers if isinstance(message.headers, dict) else {}
    properties = message.properties or {}
    body = message.body
    raw = (
        bytes(body).decode("utf-8", "backslashreplace")
        if isinstance(body, (bytes, memoryview))
        else str(body)
    )
    return failures.Failure(
        task_name=str(headers.get("task") or ""),
        task_id=str(headers.get("id") or properties.get("correlation_id") or ""),
        reason=reason,
        queue=str((message.delivery_info or {}).get("routing_key") or ""),
        priority=properties.get("priority"),
        headers={name: value for name, value in headers.items() if name not in _LEFT_OUT},
        attempts=attempts.earlier_attempts(headers),
        correlation_id=str(headers.get(CORRELATION_HEADER) or ""),
        error=error,
        raw=f"content-type: {message.content_type}\n\n{raw}",
    )


def failure_of_lost_run(message: Any, app: Any, *, reason: str, error: Exception) -> failures.Failure:
    """Return the failure of a message whose runs nobody has seen the end of.

    Where this worker knows the task and can read the call, it is kept as that of a run; else as it came.
    """
    request = _request_of(message)
    task = None if request is None else app.tasks.get(request.task)
    if request is not None and hasattr(task, "redacted"):
        try:
            return failures.from_run(task, request, request.args, request.kwargs, error=error, reason=reason)
        except Exception as odd:
            # headers of any shape; what cannot be stored would stay in its list for ever
            log.debug("message kept as it came", error=repr(odd))
    return failure_of_message(message, reason=reason, error=str(error))


def _request_of(message: Any) -> Context | None:
    """Return the request that a worker would run the message as; None if it is no call."""
    headers = message.headers
    if not isinstance(headers, Mapping) or not isinstance(headers.get("task"), str):
        return None
    try:
        body = loads(message.body, message.content_type, message.content_encoding, accept=_ACCEPTED)
        args, kwargs, embedded = body
    except (KombuError, ValueError, TypeError, LookupError):
        return None
    if not (isinstance(args, list) and isinstance(kwargs, dict) and isinstance(embedded or {}, dict)):
        return None
    delivery, properties = message.delivery_info or {}, message.properties or {}
    return Context(
        {
            **headers,
            **(embedded or {}),
            "args": args,
            "kwargs": kwargs,
            "delivery_info": {
                "exchange": delivery.get("exchange"),
                "routing_key": delivery.get("routing_key"),
                "priority": properties.get("priority"),
            },
        }
    )
