"""Fixtures: each kind of state store on a real server, and keys that no other test uses."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from taskyard.state import StateStore
from tests.support.fixtures import database_template, own_broker, own_valkey, postgres, running
from tests.support.servers import SERVERS
from tests.support.sites import copy_database
from tests.support.state_stores import KINDS, StoreSpec, database

__all__ = ["database_template", "own_broker", "own_valkey", "postgres"]

_keys = count(1)


@pytest.fixture(scope="session", params=KINDS)
def spec(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreSpec]:
    """Each kind of store in turn. Its server is not to be hurt."""
    directory = tmp_path_factory.mktemp(request.param)
    if request.param in SERVERS:
        # None of these tests ends a server: it need not write at once.
        with running(SERVERS[request.param](directory, {"appendfsync": "no"})) as server:
            yield StoreSpec(request.param, server.url)
        return
    yield from _database_spec(request, directory)


def _database_spec(request: pytest.FixtureRequest, directory: Path) -> Iterator[StoreSpec]:
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres").create_database("state", template="migrated")
    else:
        url = copy_database(request.getfixturevalue("database_template"), directory)
    found = StoreSpec(request.param, url)
    with request.getfixturevalue("django_db_blocker").unblock(), database(found):
        yield found


@pytest.fixture
def store(spec: StoreSpec) -> StateStore:
    return spec.make()


@pytest.fixture
def key() -> str:
    """A key that no other test uses."""
    return f"test {next(_keys)}"


@pytest.fixture
def hold(store: StateStore, key: str) -> Any:
    """Take the key's claim as this owner; returns the attempt."""

    def hold(owner: str, *, lease_seconds: float = 60.0, of: str = key, **holder: Any) -> Any:
        return store.acquire(of, owner=owner, holder=holder, lease_seconds=lease_seconds)

    return hold
