"""The correlation id: one from the web request through every task, retry, child, dead letter and replay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

HEADER = "correlation_id"
_current: ContextVar[str | None] = ContextVar("taskyard_correlation_id", default=None)


def current_correlation_id() -> str | None:
    """Return the correlation id of this request or run, or None outside both."""
    return _current.get()


@contextmanager
def correlated(correlation_id: str | None) -> Iterator[None]:
    """Make `correlation_id` the one that every task published inside carries."""
    token = _current.set(correlation_id)
    try:
        yield
    finally:
        _current.reset(token)
