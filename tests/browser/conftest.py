"""Fixtures: a site with a broker, a worker and a web process, and people with a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.support.browsers import Visitor, running_chromium
from tests.support.console import ProjectConsole
from tests.support.fixtures import database_template, shared_site, valkey
from tests.support.web import WebProcess

__all__ = ["database_template", "shared_site", "valkey"]

ON_CALL = (
    *(f"{action}_deadletter" for action in ("view", "replay", "discard", "reveal")),
    *(f"{action}_trackedtask" for action in ("view", "cancel")),
    *(f"{action}_heldclaim" for action in ("view", "release")),
)


# Of the module, and not of the session: while it runs, an event loop runs in this thread, and Django would
# refuse the database to the tests of other modules.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def site(browser: Browser, valkey: Any, shared_site: Callable[..., Any]) -> Any:
    """After the browser: where that is missing, nothing needs to be started."""
    return shared_site(valkey.url)


@pytest.fixture(scope="module")
def web(site: Any) -> Iterator[WebProcess]:
    process = WebProcess(site.environment, log_file=Path(site.directory) / "web.log")
    try:
        site.start_worker()
        process.wait_until_ready()
        yield process
    finally:
        process.discard()


@pytest.fixture(scope="module")
def console(site: Any) -> ProjectConsole:
    return site.start_console()


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
