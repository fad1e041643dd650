"""What a dead part has left running: the pool of a killed worker, a program that a task had started."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
GONE_WITHIN_SECONDS = 1.0


def kill_leftovers(leader: int) -> None:
    """Kill what is left in the session of a dead process, and wait until it is gone.

    Without /proc (macOS) only the dead process's own group is reached.

    Args:
        leader: id of the dead process, which had been started in a session of its own.
    """
    if not (PROC / "self" / "stat").exists():
        # macOS answers with a PermissionError where only zombies are left.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)
        return
    deadline = time.monotonic() + GONE_WITHIN_SECONDS
    while (members := session_members(leader)) and time.monotonic() < deadline:
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def session_members(session: int) -> list[int]:
    """Return the ids of the living processes of a session (Linux)."""
    members = []
    for entry in PROC.iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            stat = (entry / "stat").read_bytes()
        except OSError:  # ended meanwhile
            continue
        # pid (name) state ppid group session ...; the name may hold spaces and parentheses
        state, _, _, its_session = stat.rpartition(b")")[2].split()[:4]
        if int(its_session) == session and state not in (b"Z", b"X"):
            members.append(int(entry.name))
    return members
