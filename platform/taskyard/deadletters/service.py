"""Writing of dead letters. A row is written before its message is acknowledged."""

from __future__ import annotations

import json
from typing import Any

from django.db import close_old_connections
from django.db.utils import InterfaceError, OperationalError
from kombu.utils.json import dumps

from taskyard.deadletters.models import DeadLetter
from taskyard.tasks.failures import Failure

# Text of a hostile or broken message is kept up to here: enough to see what it is.
RAW_LIMIT = 256 * 1024


def record(failure: Failure) -> None:
    """Store a final failure, once, however often it is reported.

    Raises:
        django.db.Error: the database did not take it; the message must not be acknowledged.
    """
    values = {
        "task_name": failure.task_name[:255],
        "queue": failure.queue[:255],
        "priority": failure.priority,
        "args": _json(failure.args),
        "kwargs": _json(failure.kwargs),
        "headers": _json(failure.headers),
        "correlation_id": failure.correlation_id[:255],
        "error": _text(failure.error),
        "traceback": _text(failure.traceback),
        "raw": _text(failure.raw)[:RAW_LIMIT],
    }
    _retry_once_on_stale_connection(
        lambda: (
            DeadLetter.objects.get_or_create(
                task_id=failure.task_id[:255], retries=failure.retries, reason=failure.reason, defaults=values
            )
            if failure.task_id
            else DeadLetter.objects.create(retries=failure.retries, reason=failure.reason, **values)
        )
    )


def record_undecodable(queue: str, raw: bytes, reason: str) -> None:
    """Store a message that the transport could not decode."""
    record(
        Failure(
            task_name="",
            task_id="",
            reason=DeadLetter.Reason.UNDECODABLE,
            queue=queue,
            error=reason,
            raw=raw[:RAW_LIMIT].decode("utf-8", "backslashreplace"),
        )
    )


def _json(value: Any) -> Any:
    # As on the wire: dates, UUIDs and Decimals in Kombu's encoding. Databases refuse NUL in text.
    return json.loads(dumps(value).replace("\\u0000", "\\ufffd"))


def _text(value: str) -> str:
    return value.replace("\x00", "\ufffd").encode("utf-8", "backslashreplace").decode("utf-8")


def _retry_once_on_stale_connection(write: Any) -> None:
    """Write; if the server has closed the connection meanwhile, write again on a new one."""
    try:
        write()
    except (OperationalError, InterfaceError):
        close_old_connections()
        write()
