"""A deadline that every socket operation of a publish obeys.

Socket timeouts alone bound one operation, not a publish: a publish connects, authenticates, selects a
database, declares and pushes, and Kombu may do that twice. Inside `deadline(...)` each operation of this
thread gets what is left of the budget, so a frozen or crawling broker can't hold a web request longer than
promised.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import redis
from redis.exceptions import AuthenticationError, BusyLoadingError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

_deadline: ContextVar[float | None] = ContextVar("taskyard_publish_deadline", default=None)
_answers: ContextVar[Answers | None] = ContextVar("taskyard_answers", default=None)
# errors that the server has said itself
_SAID = (ResponseError, AuthenticationError, BusyLoadingError)


class Answers:
    """Whether the answer to a command was lost: nobody knows whether the server has done it."""

    is_lost = False


@contextmanager
def watch_answers() -> Iterator[Answers]:
    """Say whether an answer was lost on a connection of this thread inside this block."""
    answers = Answers()
    token = _answers.set(answers)
    try:
        yield answers
    finally:
        _answers.reset(token)


@contextmanager
def _noted_when_lost() -> Iterator[None]:
    try:
        yield
    except _SAID:
        raise
    except BaseException:
        answers = _answers.get()
        if answers is not None:
            answers.is_lost = True
        raise


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Bound all broker operations of this thread to `seconds` from now; an outer, earlier deadline stands."""
    at = time.monotonic() + seconds
    outer = _deadline.get()
    token = _deadline.set(at if outer is None else min(at, outer))
    try:
        yield
    finally:
        _deadline.reset(token)


def remaining_seconds() -> float | None:
    """Return what is left of the deadline of this thread, or None if there is none. May be negative."""
    at = _deadline.get()
    return None if at is None else at - time.monotonic()


class _DeadlineMixin:
    """Sets the socket timeout before each operation to what is left of the deadline."""

    _is_limited = False

    def _apply_deadline(self: Any) -> None:
        left = remaining_seconds()
        sock = self._sock
        if left is None:
            if self._is_limited and sock is not None:
                sock.settimeout(self.socket_timeout)
                self._is_limited = False
            return
        if left <= 0:
            self.disconnect()
            raise RedisTimeoutError("The publish budget is used up")
        if sock is not None:
            sock.settimeout(left if self.socket_timeout is None else min(left, self.socket_timeout))
            self._is_limited = True

    def _connect(self: Any) -> Any:
        left = remaining_seconds()
        if left is None:
            return super()._connect()  # type: ignore[misc]
        if left <= 0:
            raise RedisTimeoutError("The publish budget is used up")
        configured = self.socket_connect_timeout
        self.socket_connect_timeout = left if configured is None else min(left, configured)
        try:
            return super()._connect()  # type: ignore[misc]
        finally:
            self.socket_connect_timeout = configured

    def send_packed_command(self: Any, command: Any, check_health: bool = True) -> Any:
        self._apply_deadline()
        with _noted_when_lost():
            return super().send_packed_command(command, check_health)  # type: ignore[misc]

    def read_response(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _noted_when_lost():
            self._apply_deadline()
            return super().read_response(*args, **kwargs)  # type: ignore[misc]


class DeadlineConnection(_DeadlineMixin, redis.Connection):
    """A TCP connection that obeys the deadline."""


class DeadlineSSLConnection(_DeadlineMixin, redis.SSLConnection):
    """A TLS connection that obeys the deadline."""
