"""Faults of processes that prove that they happened: nothing here returns before the fault is in place."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress

import psutil

from tests.support.waiting import wait_until

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def end_with_tests() -> None:
    """For `preexec_fn`: the kernel kills this process when the test run dies, whatever the cause (Linux)."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL one process, and wait until it is gone by that signal."""
    assert process.poll() is None, (
        f"process {process.pid} had ended before it could be killed: {process.returncode}"
    )
    process.kill()
    assert process.wait(timeout=10) == -signal.SIGKILL


def kill_pid(pid: int) -> None:
    """SIGKILL a process that is not a child of ours, and wait until it runs no more."""
    victim = psutil.Process(pid)
    victim.kill()
    wait_until(lambda: not _runs(victim), timeout_seconds=10, what=f"process {pid} ends by SIGKILL")


def freeze(pid: int) -> None:
    """SIGSTOP a process, and wait until the kernel has stopped it."""
    victim = psutil.Process(pid)
    victim.suspend()
    wait_until(
        lambda: victim.status() == psutil.STATUS_STOPPED, timeout_seconds=10, what=f"process {pid} is frozen"
    )


def thaw(pid: int) -> None:
    """SIGCONT a process, and wait until it is not stopped any more."""
    victim = psutil.Process(pid)
    victim.resume()
    wait_until(
        lambda: victim.status() != psutil.STATUS_STOPPED, timeout_seconds=10, what=f"process {pid} goes on"
    )


def descendants(pid: int) -> list[int]:
    """Return the ids of the children of a process, and of theirs."""
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def end_tree(process: subprocess.Popen[bytes]) -> None:
    """Clean up after a test: SIGKILL a process and all that it started, whatever state they are in."""
    pids = descendants(process.pid)
    if process.poll() is None:
        process.kill()
    process.wait(timeout=10)
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            psutil.Process(pid).kill()


def are_gone(pids: list[int]) -> bool:
    """Return whether none of these processes runs any more."""
    return not any(_runs_pid(pid) for pid in pids)


def _runs_pid(pid: int) -> bool:
    try:
        return _runs(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return False


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def forked_exit_code(act: Callable[[], object]) -> int:
    """Call a function in a fork of this process, and return 0 if it came to its end."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            act()
            code = 0
        finally:
            # nothing of the tests may go on in here
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
