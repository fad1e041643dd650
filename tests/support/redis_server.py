"""A Redis server of a test's own: private port, private directory, killed by the pid that was recorded."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import redis

from tests.support.waiting import wait_until


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RedisServer:
    """One `redis-server` on 127.0.0.1.

    Args:
        append_fsync: "always" or "everysec" for a server with an append-only file; None for one without.
        options: further command line options.
    """

    def __init__(
        self, *, append_fsync: str | None = None, options: tuple[str, ...] = (), port: int | None = None
    ) -> None:
        self.port = port or free_port()
        self.append_fsync = append_fsync
        self.options = options
        self.directory = Path(tempfile.mkdtemp(prefix="taskyard-redis-"))
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self, **options: Any) -> redis.Redis:
        return redis.Redis(host="127.0.0.1", port=self.port, **options)

    def start(self) -> RedisServer:
        command = [
            "redis-server",
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--dir",
            str(self.directory),
        ]
        if self.append_fsync:
            command += ["--appendonly", "yes", "--appendfsync", self.append_fsync]
        self.process = subprocess.Popen(
            [*command, *self.options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        client = self.client()
        wait_until(
            lambda: _answers(client), timeout_seconds=20, what=f"redis-server on port {self.port} answers"
        )
        client.close()
        return self

    def signal(self, number: int) -> None:
        assert self.process is not None
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
