"""State stores for tests: each kind on a real server, described so that another process can make it too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any
from zlib import crc32

import dj_database_url
from django.db import connections

from taskyard.state import StateStore
from taskyard.state.redis import RedisStore

SQLITE_OPTIONS = {
    "timeout": 20,
    "transaction_mode": "IMMEDIATE",
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
}
KINDS = ("redis", "valkey", "postgresql", "sqlite")


@dataclass(frozen=True)
class StoreSpec:
    """Where a store is.

    Args:
        kind: one of `KINDS`.
        url: of the server or the database.
    """

    kind: str
    url: str

    @property
    def is_database(self) -> bool:
        return self.kind in ("postgresql", "sqlite")

    @property
    def alias(self) -> str:
        """Name of the database for Django, beside the project's own; each has another one."""
        return f"state-{crc32(self.url.encode())}"

    def make(self, **options: Any) -> StateStore:
        """Return a store; one of a database is used inside `database`."""
        if self.is_database:
            # It imports models, which need Django to be set up.
            from taskyard.state.database import DatabaseStore

            return DatabaseStore(using=self.alias, **options)
        return RedisStore(self.url, **{"prefix": "test:", **options})

    def dump(self) -> str:
        return json.dumps(asdict(self))


@contextmanager
def database(spec: StoreSpec) -> Iterator[None]:
    """Make the database known to Django under its alias."""
    config = dj_database_url.parse(spec.url)
    if spec.kind == "sqlite":
        config["OPTIONS"] = SQLITE_OPTIONS
    known = connections.configure_settings({**connections.settings, spec.alias: config})
    connections.settings[spec.alias] = known[spec.alias]
    try:
        yield
    finally:
        connections[spec.alias].close()
        del connections[spec.alias]
        del connections.settings[spec.alias]
