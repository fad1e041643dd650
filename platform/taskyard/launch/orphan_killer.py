"""Ends the parts of a launcher that has died, so that none lives on with nobody to stop it.

Runs beside the launcher and reads from it, on standard input, which parts run: "+PID SECONDS" when one has
started, "-PID" when one has ended. The end of the input is the end of the launcher. Each part then has its
seconds to end. On Linux the kernel has asked the parts already (see `child.py`), but a worker that has lost
its broker waits for its running tasks.

Like `child.py`, run by its path with `python -I -S`: it uses the standard library and one file beside it.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

POLL_SECONDS = 0.1


def main() -> None:
    end_parts(read_parts(sys.stdin), load_kill_leftovers())


def read_parts(lines: Iterable[str]) -> dict[int, float]:
    """Return the parts that run when the launcher has ended: the seconds for each, by process id."""
    parts: dict[int, float] = {}
    for line in lines:
        pid, _, seconds = line[1:].partition(" ")
        if line.startswith("+"):
            parts[int(pid)] = float(seconds)
        else:
            parts.pop(int(pid), None)
    return parts


def end_parts(parts: dict[int, float], kill_leftovers: Callable[[int], None]) -> None:
    """Return when all the parts have ended; kill those that take too long."""
    if not sys.platform.startswith("linux"):
        for pid in parts:
            send(pid, signal.SIGTERM)
    began = time.monotonic()
    while parts:
        for pid, patience_seconds in list(parts.items()):
            if send(pid, 0) and time.monotonic() - began < patience_seconds:
                continue
            send(pid, signal.SIGKILL)
            kill_leftovers(pid)
            del parts[pid]
        time.sleep(POLL_SECONDS)


def send(pid: int, number: int) -> bool:
    """Send a signal; return whether the process exists."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False


def load_kill_leftovers() -> Callable[[int], None]:
    """Return the function of the module beside this one, without importing the kit."""
    spec = importlib.util.spec_from_file_location("leftovers", Path(__file__).with_name("leftovers.py"))
    if spec is None or spec.loader is None:
        raise ImportError("leftovers.py is missing. Install the package taskyard again.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kill_leftovers: Callable[[int], None] = module.kill_leftovers
    return kill_leftovers


if __name__ == "__main__":
    main()
