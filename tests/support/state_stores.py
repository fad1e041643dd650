"""State stores for tests: each kind on a real server, described so that another process can make it too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import dj_database_url
from django.db import connections

from taskyard.state import StateStore
from taskyard.state.redis import RedisStore

# Alias of the database under test, beside the project's own.
ALIAS = "state"
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

    def make(self, **options: Any) -> StateStore:
        """Return a store; one of a database is used inside `database`."""
        if self.is_database:
            # It imports models, which need Django to be set up.
            from taskyard.state.database import DatabaseStore

            return DatabaseStore(using=ALIAS, **options)
        return RedisStore(self.url, **{"prefix": "test:", **options})

    def dump(self) -> str:
        return json.dumps(asdict(self))


@contextmanager
def database(spec: StoreSpec) -> Iterator[None]:
    """Make the database known to Django under `ALIAS`."""
    config = dj_database_url.parse(spec.url)
    if spec.kind == "sqlite":
        config["OPTIONS"] = SQLITE_OPTIONS
    connections.settings[ALIAS] = connections.configure_settings({**connections.settings, ALIAS: config})[
        ALIAS
    ]
    try:
        yield
    finally:
        connections[ALIAS].close()
        del connections[ALIAS]
        del connections.settings[ALIAS]
