"""A real PostgreSQL for tests, on a private port with a private directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.support.ports import free_port
from tests.support.servers import MissingServiceError

PROGRAMS = Path("/usr/lib/postgresql")
OWNER = "postgres"


class PostgresServer:
    """One cluster. It refuses to run as root, so it runs as `postgres` where the tests run as root."""

    def __init__(self) -> None:
        self.programs = _programs()
        # Not below pytest's own directory, which only the user of the tests can reach.
        self.directory = Path(tempfile.mkdtemp(prefix="taskyard-postgres-"))
        self.port = free_port()
        self._is_started = False

    def url(self, database: str) -> str:
        return f"postgres://{OWNER}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start, with the data of the last time, and wait until it answers."""
        if not (self.directory / "data").exists():
            if os.geteuid() == 0:
                shutil.chown(self.directory, OWNER, OWNER)
            self._run("initdb", "--auth=trust", f"--username={OWNER}", "--no-sync", "--pgdata", self._data)
        address = f"-c listen_addresses=127.0.0.1 -c unix_socket_directories={self.directory}"
        options = f"-p {self.port} {address} -c fsync=off"
        log = str(self.directory / "server.log")
        self._run("pg_ctl", "start", "--wait", "--pgdata", self._data, "--log", log, "--options", options)
        self._is_started = True

    def stop(self) -> None:
        """Stop, cutting the connections of all clients."""
        self._run("pg_ctl", "stop", "--wait", "--mode=fast", "--pgdata", self._data)
        self._is_started = False

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
        if self._is_started:
            self._run("pg_ctl", "stop", "--wait", "--mode=immediate", "--pgdata", self._data)
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

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self.programs / program), *arguments]
        if os.geteuid() == 0:
            command = ["setpriv", f"--reuid={OWNER}", f"--regid={OWNER}", "--clear-groups", *command]
        with (self.directory / "commands.log").open("ab") as log:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                check=False,
                timeout=60,
            )
        if done.returncode != 0:
            raise AssertionError(f"{program} failed:\n{(self.directory / 'commands.log').read_text()}")


def _programs() -> Path:
    found = sorted(PROGRAMS.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not found:
        raise MissingServiceError(
            f"There is no {PROGRAMS}/*/bin/initdb. Install it with: apt-get install postgresql"
        )
    return found[-1].parent
