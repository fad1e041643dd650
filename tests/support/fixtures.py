"""The fixtures of the tests that run real processes; in continuous integration a missing one is an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.postgres import PostgresServer
from tests.support.servers import SERVERS, RespServer, ValkeyServer
from tests.support.sites import DATABASE_NAME, Site, copy_database, migrate

__all__ = [
    "broker",
    "database_template",
    "new_site",
    "own_broker",
    "own_valkey",
    "postgres",
    "postgres_database",
    "shared_site",
    "valkey",
]

TEMPLATE = "migrated"
NewSite = Callable[..., Site]


@contextmanager
def running(server: RespServer) -> Iterator[RespServer]:
    """Start a server, and end it in whatever state it is then."""
    try:
        server.start()
        yield server
    finally:
        server.discard()


@contextmanager
def site_maker(directory: Path, template: Path) -> Iterator[NewSite]:
    """Give a function that makes sites, each with its own database unless one is given; closes them all."""
    with ExitStack() as stack:

        def make(broker_url: str, *, database_url: str | None = None, **settings: Any) -> Site:
            place = directory / f"site-{len(list(directory.glob('site-*'))) + 1}"
            database_url = database_url or copy_database(template, place)
            site = Site(place, broker_url=broker_url, database_url=database_url, settings=settings)
            stack.callback(site.close)
            return site

        yield make


@pytest.fixture(scope="session")
def database_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite database, to be copied."""
    directory = tmp_path_factory.mktemp("template")
    migrate(directory, f"sqlite:///{directory / DATABASE_NAME}")
    return directory / DATABASE_NAME


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A PostgreSQL server with a migrated database to be copied."""
    server = PostgresServer()
    try:
        server.start()
        migrate(tmp_path_factory.mktemp("postgres"), server.create_database(TEMPLATE))
        yield server
    finally:
        server.discard()


@pytest.fixture
def postgres_database(postgres: PostgresServer, request: pytest.FixtureRequest) -> str:
    """The name of a migrated database of this test's own; its URL is `postgres.url(name)`."""
    name = f"test_{abs(hash(request.node.nodeid))}"
    postgres.create_database(name, template=TEMPLATE)
    return name


@pytest.fixture(scope="module", params=list(SERVERS))
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RespServer]:
    """A broker of this module, of each kind in turn. Not to be hurt."""
    with running(SERVERS[request.param](tmp_path_factory.mktemp("broker"))) as server:
        yield server


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RespServer]:
    """A broker of this module, where the kind does not matter. Not to be hurt."""
    with running(ValkeyServer(tmp_path_factory.mktemp("broker"))) as server:
        yield server


@pytest.fixture(params=list(SERVERS))
def own_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RespServer]:
    """A broker of this test, of each kind in turn, to be killed, frozen and restarted."""
    with running(SERVERS[request.param](tmp_path / "broker")) as server:
        yield server


@pytest.fixture
def own_valkey(tmp_path: Path) -> Iterator[RespServer]:
    """A broker of this test, to be hurt, where the kind does not matter."""
    with running(ValkeyServer(tmp_path / "broker")) as server:
        yield server


@pytest.fixture
def new_site(tmp_path: Path, database_template: Path) -> Iterator[NewSite]:
    """Makes sites that end with the test."""
    with site_maker(tmp_path, database_template) as make:
        yield make


@pytest.fixture(scope="module")
def shared_site(tmp_path_factory: pytest.TempPathFactory, database_template: Path) -> Iterator[NewSite]:
    """Makes sites that end with the module."""
    with site_maker(tmp_path_factory.mktemp("sites"), database_template) as make:
        yield make
