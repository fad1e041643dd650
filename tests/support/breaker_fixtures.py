"""The fixtures of the tests of breakers: a server of each kind, and a fleet whose time the test moves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from taskyard import Breaker
from taskyard.breakers.store import BreakerStore
from tests.support.breakers import Fleet, MovableClock
from tests.support.fixtures import running
from tests.support.servers import SERVERS, RespServer

__all__ = ["breaker_server", "fleet"]

PAYMENTS = Breaker("payments", minimum_calls=5)


@pytest.fixture(scope="module", params=list(SERVERS))
def breaker_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RespServer]:
    """Writes nothing to the disk: these tests ask thousands of times."""
    directory = tmp_path_factory.mktemp("breakers")
    with running(SERVERS[request.param](directory, {"appendonly": "no"})) as server:
        yield server


@pytest.fixture
def fleet(breaker_server: RespServer) -> Fleet:
    """Whoever calls under the breaker "payments", which nobody has called yet."""
    clock = MovableClock()
    breaker_server.client().flushall()
    return Fleet(BreakerStore(breaker_server.url, clock=clock), PAYMENTS, clock)
