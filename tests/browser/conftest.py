"""Fixtures: a site with a broker, a worker and a web process, and people with a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.support.browsers import Visitor, require_chromium, running_chromium
from tests.support.console import ProjectConsole
from tests.support.fixtures import database_template, running, site_maker
from tests.support.servers import ValkeyServer
from tests.support.sites import Site
from tests.support.web import WebProcess
from tests.support.workers import WorkerProcess

__all__ = ["database_template"]

ON_CALL = (
    *(f"{action}_deadletter" for action in ("view", "replay", "discard", "reveal")),
    *(f"{action}_trackedtask" for action in ("view", "cancel")),
    *(f"{action}_heldclaim" for action in ("view", "release")),
)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, database_template: Path) -> Iterator[Site]:
    """One site for all tests in a browser: each of them has keys of its own."""
    require_chromium()
    directory = tmp_path_factory.mktemp("browser")
    with (
        running(ValkeyServer(directory / "broker")) as broker,
        site_maker(directory, database_template) as make,
    ):
        yield make(broker.url)


@pytest.fixture(scope="session")
def worker(site: Site) -> WorkerProcess:
    """Started, and not waited for: the other processes start meanwhile."""
    return site.start_worker(is_ready=False)


@pytest.fixture(scope="session")
def web(site: Site, worker: WorkerProcess) -> Iterator[WebProcess]:
    process = WebProcess(site.environment, log_file=site.directory / "web.log")
    yield process
    process.discard()


@pytest.fixture(scope="session")
def console(site: Site, worker: WorkerProcess, web: WebProcess) -> ProjectConsole:
    console = site.start_console()
    worker.wait_until_ready()
    web.wait_until_ready()
    return console


# Of the module, and not of the session: while it runs, an event loop runs in this thread, and Django would
# refuse the database to the tests of other modules.
@pytest.fixture(scope="module")
def browser(console: ProjectConsole) -> Iterator[Browser]:
    with running_chromium() as browser:
        yield browser


@pytest.fixture
def visit(
    browser: Browser, web: WebProcess, console: ProjectConsole, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Visitor]]:
    """Log somebody in who is on call; fails at the end if a page has complained of anything."""
    visitors: list[Visitor] = []

    def visit(**options: Any) -> Visitor:
        name = f"{request.node.name}-{len(visitors)}"
        session = console.value("log_in", name=name, permissions=ON_CALL)
        visitor = Visitor(browser, base_url=web.url, session=session, **options)
        visitors.append(visitor)
        return visitor

    yield visit
    for visitor in visitors:
        visitor.close()
    assert [text for visitor in visitors for text in visitor.complaints] == []
