"""One part of the platform as a child process: what it is, and its start, state and signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from taskyard.errors import LaunchError
from taskyard.launch.leftovers import kill_leftovers
from taskyard.launch.orphan_guard import OrphanGuard

CHILD_WRAPPER = Path(__file__).with_name("child.py")


class StopStage(IntEnum):
    """When a part is stopped; a stage begins when the one before it has ended."""

    PUBLISHERS = 1
    WORKERS = 2
    BROKER = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """What a part is and how it is treated.

    Args:
        name: shown before each of its lines.
        argv: its command line. Secrets go into `env`: everybody on the machine can read command lines.
        env: added to the launcher's environment.
        stop_stage: when it is stopped.
        stop_timeout_seconds: it is killed when it has not ended this long after SIGTERM.
        is_killed_when_forced: whether a second Ctrl-C kills it; False for a server that must save its data.
        is_ready: returns whether it does its work; None: as soon as it runs.
        before_start: called before each start.
        log_file: its output goes there; None: it is shown.
        pass_fds: file descriptors that it inherits.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    stop_stage: StopStage = StopStage.WORKERS
    stop_timeout_seconds: float = 10.0
    is_killed_when_forced: bool = True
    is_ready: Callable[[], bool] | None = None
    before_start: Callable[[], None] | None = None
    log_file: Path | None = None
    pass_fds: tuple[int, ...] = ()


class Process:
    """A child process that can be started again after it has ended. Use it from the main thread only.

    It runs in a session of its own, so that the terminal's Ctrl-C reaches the launcher only. When the
    launcher dies, it gets SIGTERM from the kernel (Linux), and the guard ends it if that does not help.
    """

    def __init__(self, spec: ProcessSpec, guard: OrphanGuard | None = None) -> None:
        self.spec = spec
        self._guard = guard
        self._popen: subprocess.Popen[bytes] | None = None
        self._is_cleaned_up = False

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def pid(self) -> int | None:
        """Id of the running process, or of the last one."""
        return self._popen.pid if self._popen else None

    @property
    def output(self) -> int | None:
        """File descriptor of its output, non-blocking; None when it goes to a file."""
        return self._popen.stdout.fileno() if self._popen and self._popen.stdout else None

    @property
    def is_running(self) -> bool:
        return self._popen is not None and self.poll() is None

    def start(self) -> None:
        """Start it.

        Raises:
            LaunchError: the operating system refuses.
        """
        if self.spec.before_start is not None:
            self.spec.before_start()
        wrapper = (sys.executable, "-I", "-S", str(CHILD_WRAPPER), str(os.getpid()))
        try:
            self._popen = self._spawn([*wrapper, *self.spec.argv])
            self._is_cleaned_up = False
        except OSError as error:
            raise LaunchError(
                f"{self.name} did not start: {error}. Check the free memory and the limits."
            ) from error
        if self._guard is not None:
            self._guard.note_start(self._popen.pid, self.spec.stop_timeout_seconds)
        if self.output is not None:
            os.set_blocking(self.output, False)

    def _spawn(self, argv: list[str]) -> subprocess.Popen[bytes]:
        def popen(stdout: int) -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                argv,
                env={**os.environ, **self.spec.env},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.STDOUT,
                bufsize=0,
                start_new_session=True,
                pass_fds=self.spec.pass_fds,
            )

        if self.spec.log_file is None:
            return popen(subprocess.PIPE)
        with self.spec.log_file.open("ab") as log_file:
            return popen(log_file.fileno())

    def poll(self) -> int | None:
        """Return the exit code (minus the signal's number when a signal ended it), or None while it runs."""
        if self._popen is None:
            return None
        code = self._popen.poll()
        if code is not None and not self._is_cleaned_up:
            self._is_cleaned_up = True
            self._clean_up(self._popen.pid)
        return code

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process alone: a worker's pool processes would lose their tasks by SIGTERM."""
        if self._popen is not None:
            self._popen.send_signal(number)

    def wait(self, timeout_seconds: float | None = None) -> int | None:
        """Return the exit code, or None if it still runs after the time."""
        if self._popen is not None:
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(timeout_seconds)
        return self.poll()

    def stop(self, timeout_seconds: float | None = None) -> bool:
        """Ask it to end, wait, and kill it after the time.

        Returns:
            whether it ended by itself.
        """
        self.signal(signal.SIGTERM)
        self.wait(self.spec.stop_timeout_seconds if timeout_seconds is None else timeout_seconds)
        if not self.is_running:
            return True
        self.signal(signal.SIGKILL)
        self.wait()
        return False

    def close_output(self) -> None:
        """Close the pipe of an ended process."""
        if self._popen is not None and self._popen.stdout is not None:
            self._popen.stdout.close()
            self._popen.stdout = None

    def _clean_up(self, pid: int) -> None:
        kill_leftovers(pid)
        if self._guard is not None:
            self._guard.note_end(pid)


def describe_exit(code: int) -> str:
    """Return an exit code in words: 'exit code 1' or 'killed by SIGKILL'."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
