"""Child processes that are gone when the tool ends, however it ends.

Each child leads a session of its own; whatever it starts stays in that session, also a pool process that
leaves the process group. So "this worker and its children" is a question that the kernel answers, and nothing
else is ever signalled.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

REPOSITORY = Path(__file__).resolve().parents[2]
# Ends the child when this tool is killed and can clean up nothing (Linux).
WRAPPER = REPOSITORY / "platform/taskyard/launch/child.py"
SIGTERM_EXIT = 128 + signal.SIGTERM

_started: list[Child] = []


class Child:
    """A process in its own session. Start it from the main thread.

    Args:
        name: for people.
        argv: the command line.
        env: added to this process's environment.
        log_file: where its output goes; it is appended to.
    """

    def __init__(self, name: str, argv: Sequence[str], *, env: Mapping[str, str], log_file: Path) -> None:
        self.name = name
        with log_file.open("ab") as output:
            self._popen = subprocess.Popen(
                [sys.executable, "-I", "-S", str(WRAPPER), str(os.getpid()), *argv],
                env={**os.environ, **env},
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        _started.append(self)

    @property
    def pid(self) -> int:
        return self._popen.pid

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return self._popen.poll()

    def wait(self, timeout_seconds: float) -> int | None:
        """Return the exit code, or None if it still runs after the time."""
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(timeout_seconds)
        return self._popen.returncode

    def members(self) -> list[int]:
        """Return the ids of all processes of its session, itself first."""
        others = [pid for pid in psutil.pids() if pid != self.pid and _session_of(pid) == self.pid]
        return [self.pid, *others] if self.poll() is None else others

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process itself only."""
        self._popen.send_signal(number)

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to the process and everything it has started."""
        for pid in self.members():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """SIGKILL all of it and wait for the end."""
        self.signal_all(signal.SIGKILL)
        self._popen.wait()
        # one that was being forked when the list was made
        self.signal_all(signal.SIGKILL)


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def forget(child: Child) -> None:
    """Stop tracking an ended child, before its id can belong to somebody else."""
    with suppress(ValueError):
        _started.remove(child)


@atexit.register
def end_everything() -> None:
    """Kill every child that is left."""
    while _started:
        child = _started.pop()
        # A frozen process dies of SIGKILL too.
        child.kill()


def end_on_sigterm() -> None:
    """Turn SIGTERM into a normal exit, so that the children are ended."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(SIGTERM_EXIT))


def python_environment() -> dict[str, str]:
    """Return what a Python child needs to import the kit and the tests from this checkout."""
    return {
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "platform"), str(REPOSITORY)]),
        "PYTHONUNBUFFERED": "1",
        "C_FORCE_ROOT": "1",
    }
