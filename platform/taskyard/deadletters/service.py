"""Writing of dead letters. A row is written before its message is acknowledged."""

from __future__ import annotations

from typing import Any

from django.db import close_old_connections
from django.db.utils import InterfaceError, OperationalError

from taskyard.conf import get_settings
from taskyard.deadletters.models import DeadLetter
from taskyard.sealing import seal
from taskyard.tasks import failures
from taskyard.tasks.plain_values import plain, plain_text

# Long text (a hostile message, an error that holds a document) is kept up to here: enough to see what it is.
TEXT_LIMIT = 256 * 1024
SMALL_INTEGERS = 1 << 15


def record(failure: failures.Failure) -> None:
    """Store a final failure, once, however often it is reported.

    Raises:
        django.db.Error: the database did not take it; the message must not be acknowledged.
    """
    reason, retries, task_id = failure.reason, _integer(failure.retries) or 0, _name(failure.task_id)
    values = {
        "task_name": _name(failure.task_name),
        "queue": _name(failure.queue),
        "priority": _integer(failure.priority),
        "args": plain(failure.args),
        "kwargs": plain(failure.kwargs),
        "headers": plain(failure.headers),
        "correlation_id": _name(failure.correlation_id),
        "error": plain_text(failure.error)[:TEXT_LIMIT],
        "traceback": plain_text(failure.traceback)[-TEXT_LIMIT:],
        "sealed_raw": seal(plain_text(failure.raw)[:TEXT_LIMIT], get_settings()) if failure.raw else "",
    }
    identity = {"task_id": task_id, "retries": retries, "reason": reason}
    _retry_once_on_stale_connection(
        lambda: (
            DeadLetter.objects.get_or_create(**identity, defaults=values)
            if task_id
            else DeadLetter.objects.create(**identity, **values)
        )
    )


def record_undecodable(queue: str, raw: bytes, reason: str) -> None:
    """Store a message that the transport could not decode, and log it as every dead letter is."""
    failures.record(
        failures.Failure(
            task_name="",
            task_id="",
            reason=DeadLetter.Reason.UNDECODABLE,
            queue=queue,
            error=reason,
            raw=raw[:TEXT_LIMIT].decode("utf-8", "backslashreplace"),
        )
    )


def _name(value: str) -> str:
    return plain_text(value)[:255]


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 <= value < SMALL_INTEGERS else None


def _retry_once_on_stale_connection(write: Any) -> None:
    """Write; if the server has closed the connection meanwhile, write again on a new one."""
    try:
        write()
    except (OperationalError, InterfaceError):
        close_old_connections()
        write()
