"""Reading the dead letters of a site as an operator would: from its database, beside the running workers."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg.rows import dict_row

from taskyard.conf import build_settings
from taskyard.sealing import unseal
from tests.support.waiting import wait_until

# Django's, of every site of the tests.
SECRET_KEY = "only-for-these-tests"
QUERY = "SELECT * FROM deadletters_deadletter ORDER BY id"
JSON_COLUMNS = ("args", "kwargs", "headers")


class DeadLetters:
    """The dead letter table of one database.

    Args:
        database_url: as in DATABASE_URL.
        check: called while waiting; raises if waiting is in vain.
    """

    def __init__(self, database_url: str, *, check: Callable[[], None]) -> None:
        self.database_url = database_url
        self.check = check

    def rows(self, **fields: Any) -> list[dict[str, Any]]:
        """Return the rows with these values, oldest first."""
        return [row for row in self._read() if all(row[name] == value for name, value in fields.items())]

    def wait_for(
        self, *, count: int = 1, timeout_seconds: float = 30.0, **fields: Any
    ) -> list[dict[str, Any]]:
        """Return the rows with these values as soon as there are so many."""

        def are_there() -> bool:
            found = len(self.rows(**fields)) >= count
            if not found:
                self.check()
            return found

        wait_until(
            are_there,
            timeout_seconds=timeout_seconds,
            what=f"there are {count} dead letters with {fields}",
            pause_seconds=0.1,
        )
        return self.rows(**fields)

    def message(self, row: dict[str, Any]) -> str:
        """Return the message that a row keeps encrypted, as it came."""
        keys = build_settings({"ENCRYPTION_KEYS": [SECRET_KEY]})
        return str(unseal(row["sealed_raw"], keys))

    def _read(self) -> list[dict[str, Any]]:
        parts = urlsplit(self.database_url)
        if parts.scheme == "sqlite":
            return self._read_sqlite(parts.path[1:])
        with psycopg.connect(self.database_url, row_factory=dict_row) as connection:
            return connection.execute(QUERY).fetchall()

    def _read_sqlite(self, path: str) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(path, timeout=20)) as connection:
            connection.row_factory = sqlite3.Row
            rows = [dict(row) for row in connection.execute(QUERY)]
        return [row | {name: json.loads(row[name]) for name in JSON_COLUMNS} for row in rows]
