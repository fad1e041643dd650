"""Fixtures of the fault tests of the transport.

A broker, a file of effects, workers that are killed at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.leased_worker import Effects, Worker
from tests.support.redis_server import RedisServer


@pytest.fixture
def effects(tmp_path: Path) -> Effects:
    return Effects(tmp_path / "effects")


@pytest.fixture
def durable_broker() -> Iterator[RedisServer]:
    """A broker that has written what it has acknowledged."""
    server = RedisServer(append_fsync="always").start()
    yield server
    server.stop()


@pytest.fixture
def start_worker(effects: Effects) -> Iterator[Callable[..., Worker]]:
    workers: list[Worker] = []

    def start(server: RedisServer, **options: Any) -> Worker:
        options.setdefault("name", f"w{len(workers) + 1}")
        workers.append(Worker(server.url, effects, **options))
        return workers[-1]

    yield start
    for worker in workers:
        worker.kill()
