"""The layer that carries the correlation id of the message through the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from taskyard.correlation import correlated

if TYPE_CHECKING:
    from taskyard.tasks.run import Run


def correlate(run: Run, call_next: Callable[[], Any]) -> Any:
    with correlated(correlation_id_of(run.request)):
        return call_next()


def correlation_id_of(request: Any) -> str:
    """Return the correlation id of a request; the message of a stock producer starts one with its task id."""
    # the worker-side request has put the header here
    return str(request.correlation_id or request.id)


def header_of(request: Any, name: str, default: Any = None) -> Any:
    """Return a custom message header of a request."""
    return (request.headers or {}).get(name, default)


def set_header(request: Any, name: str, value: Any) -> None:
    """Set a custom message header of a run, for the message with which it is snoozed or retried."""
    # a dict of its own: the message's may be shared with what has been logged of it
    request.headers = {**(request.headers or {}), name: value}


def number_of(request: Any, name: str) -> float | None:
    """Return a custom message header that is a number; None if it is missing or something else."""
    value = header_of(request, name)
    return float(value) if isinstance(value, (int, float)) else None
