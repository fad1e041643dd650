"""A real PostgreSQL for tests, on a private port with a private directory."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.support import processes
from tests.support.ports import free_port
from tests.support.servers import START_TIMEOUT_SECONDS, MissingServiceError
from tests.support.waiting import wait_until

PROGRAMS = Path("/usr/lib/postgresql")
OWNER = "postgres"


class PostgresServer:
    """One cluster. It refuses to run as root, so it runs as `postgres` where the tests run as root."""

    def __init__(self) -> None:
        self.programs = _programs()
        # Not below pytest's own directory, which only the user of the tests can reach.
        self.directory = Path(tempfile.mkdtemp(prefix="taskyard-postgres-"))
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str) -> str:
        return f"postgres://{OWNER}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start, with the data of the last time, and wait until it answers."""
        if not (self.directory / "data").exists():
            if os.geteuid() == 0:
                shutil.chown(self.directory, OWNER, OWNER)
            self._run("initdb", "--auth=trust", f"--username={OWNER}", "--no-sync", "--pgdata", self._data)
        address = ["-p", str(self.port), "-c", "listen_addresses=127.0.0.1"]
        sockets = ["-c", f"unix_socket_directories={self.directory}"]
        with (self.directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command("postgres", "-D", self._data, *address, *sockets, "-c", "fsync=off"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                preexec_fn=processes.end_with_tests,
            )
        wait_until(self._is_ready, timeout_seconds=START_TIMEOUT_SECONDS, what="PostgreSQL answers")

    def stop(self) -> None:
        """Stop, cutting the connections of all clients (PostgreSQL's fast shutdown)."""
        assert self._process is not None, "the server was not started"
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(timeout=30) == 0
        self._process = None

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop it for as long as the block lasts, cutting the connections of all clients."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def discard(self) -> None:
        """Stop and remove the data, at the end of a test."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(timeout=30)
        shutil.rmtree(self.directory, ignore_errors=True)

    def create_database(self, name: str, *, template: str = "template1") -> str:
        """Make a database, as a copy of another one, and return its URL."""
        self.execute("postgres", f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url(name)

    def execute(self, database: str, statement: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """Run one statement outside a transaction, and return its rows."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement, arguments or None)
            return cursor.fetchall() if cursor.description else []

    def terminate_backend(self, pid: int) -> None:
        """Kill the server's side of one client's connection, and see that it is gone."""
        (row,) = self.execute("postgres", "SELECT pg_terminate_backend(%s, 5000)", pid)
        assert row == (True,), f"backend {pid} was not there, or did not end"

    @property
    def _data(self) -> str:
        return str(self.directory / "data")

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (
            f"PostgreSQL ended at the start, see {self.directory / 'server.log'}"
        )
        try:
            return bool(self.execute("postgres", "SELECT 1"))
        except psycopg.OperationalError:
            return False

    def _command(self, program: str, *arguments: str) -> list[str]:
        command = [str(self.programs / program), *arguments]
        if os.geteuid() != 0:
            return command
        # Giving up root also clears what `end_with_tests` has asked the kernel for.
        owner = [f"--reuid={OWNER}", f"--regid={OWNER}", "--clear-groups", "--pdeathsig=SIGQUIT"]
        return ["setpriv", *owner, *command]

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            self._command(program, *arguments),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=self.directory,
            check=False,
            timeout=60,
            text=True,
        )
        if done.returncode != 0:
            raise AssertionError(f"{program} failed:\n{done.stdout}{done.stderr}")


def _programs() -> Path:
    found = sorted(PROGRAMS.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not found:
        raise MissingServiceError(
            f"There is no {PROGRAMS}/*/bin/initdb. Install it with: apt-get install postgresql"
        )
    return found[-1].parent
