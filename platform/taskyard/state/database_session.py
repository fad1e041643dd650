"""Statements that are committed by themselves, whatever the thread's transaction does."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Mapping
from typing import Any

from django.db import DataError, Error, InterfaceError, OperationalError, ProgrammingError, connections
from django.db.transaction import TransactionManagementError

from taskyard.clock import Clock
from taskyard.errors import ConfigurationError, StateUnavailableError
from taskyard.state.sql import DIALECTS, Dialect

TRIES = 10
CONTENDED_PAUSE_SECONDS = 0.02
# serialization_failure, deadlock_detected
CONTENDED_STATES = ("40001", "40P01")
_aliases: set[str] = set()
# Connections of the parent process; kept, or they would be closed.
_inherited: list[Any] = []


class DatabaseSession:
    """Runs statements on one database of Django's, in whichever thread.

    Args:
        alias: which one.
        clock: for how long it is tried.
        timeout_seconds: after this no new try is begun.
    """

    def __init__(self, alias: str, *, clock: Clock, timeout_seconds: float) -> None:
        self.alias = alias
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        _forget_inherited_at_fork(alias)

    @property
    def connection(self) -> Any:
        """The connection of this thread."""
        return connections[self.alias]

    @property
    def dialect(self) -> Dialect:
        vendor = self.connection.vendor
        if vendor not in DIALECTS:
            raise ConfigurationError(
                f"The state store can't use the database {self.alias!r}: {vendor}. "
                "Use PostgreSQL, or set TASKYARD_STATE_URL to a Redis or Valkey server."
            )
        return DIALECTS[vendor]

    def rows(self, statement: str, arguments: Mapping[str, Any]) -> list[Any]:
        """Run a statement and return its rows."""
        return self._run(statement, arguments, lambda cursor: cursor.fetchall())

    def count(self, statement: str, arguments: Mapping[str, Any]) -> int:
        """Run a statement and return how many rows it has changed."""
        return self._run(statement, arguments, lambda cursor: cursor.rowcount)

    def close(self) -> None:
        """Close the connection of this thread."""
        self.connection.close()

    def _run(self, statement: str, arguments: Mapping[str, Any], answer: Any) -> Any:
        try:
            return self._run_apart(statement, arguments, answer)
        except (TransactionManagementError, DataError):
            # A mistake of the caller's.
            raise
        except Error as error:
            raise self._unavailable(error) from error

    def _run_apart(self, statement: str, arguments: Mapping[str, Any], answer: Any) -> Any:
        connection = self.connection
        if _is_of_a_test_case(connection):
            # Rolled back with everything else that the test has done.
            return _execute(connection, statement, arguments, answer)
        if connection.get_autocommit():
            return self._try(connection, statement, arguments, answer)
        if connection.vendor == "sqlite":
            raise TransactionManagementError(
                "A claim can't be taken or changed inside a transaction on SQLite, which has one writer: "
                f"the database {self.alias!r}. Do it before or after, or set TASKYARD_STATE_URL."
            )
        apart = connection.copy()
        try:
            return self._try(apart, statement, arguments, answer)
        finally:
            apart.close()

    def _try(self, connection: Any, statement: str, arguments: Mapping[str, Any], answer: Any) -> Any:
        """Run it; every operation may be repeated, so that it also may have happened before the error."""
        ends_at = self._clock.monotonic() + self._timeout_seconds
        is_new = False
        for tries_left in reversed(range(TRIES)):
            try:
                return _execute(connection, statement, arguments, answer)
            except (OperationalError, InterfaceError) as error:
                if not tries_left or self._clock.monotonic() >= ends_at:
                    raise
                if _is_contended(error):
                    threading.Event().wait(random.uniform(0, CONTENDED_PAUSE_SECONDS))  # noqa: S311 - no secret
                elif is_new or connection.vendor == "sqlite":
                    raise
                else:
                    # The server may have closed it long ago.
                    connection.close()
                    is_new = True
        raise AssertionError("unreachable")

    def _unavailable(self, error: Error) -> StateUnavailableError:
        settings = self.connection.settings_dict
        place = f"{self.connection.vendor} {settings.get('HOST') or settings['NAME']}"
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        if isinstance(error, ProgrammingError) or "no such" in reason:
            return StateUnavailableError(
                f"The state store {place} lacks a table or column: {reason}. Run: manage.py migrate"
            )
        return StateUnavailableError(f"The state store {place} does not answer: {reason}. Is it running?")


def _execute(connection: Any, statement: str, arguments: Mapping[str, Any], answer: Any) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        return answer(cursor)


def _is_contended(error: Error) -> bool:
    """Whether somebody else was faster: the file is locked, or the project has serializable transactions."""
    return "locked" in str(error) or getattr(error.__cause__, "sqlstate", None) in CONTENDED_STATES


def _is_of_a_test_case(connection: Any) -> bool:
    return any(getattr(block, "_from_testcase", False) for block in connection.atomic_blocks)


def _forget_inherited_at_fork(alias: str) -> None:
    """Have a forked child open a connection of its own.

    Over the parent's, each would read the other's answers.
    """
    if not _aliases:
        os.register_at_fork(after_in_child=_forget_inherited)
    _aliases.add(alias)


def _forget_inherited() -> None:
    for connection in connections.all(initialized_only=True):
        is_open = connection.connection is not None and not connection.in_atomic_block
        if connection.alias in _aliases and is_open:
            # Not closed: that would end the parent's session.
            _inherited.append(connection.connection)
            connection.connection = None
