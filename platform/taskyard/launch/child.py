"""Becomes the given command, tied to the life of the process that started it.

Run by its path with `python -I -S`, not with `-m`: importing the kit first would double the start-up time of
every part, and the isolation keeps the modules beside this file from shadowing the standard library's. So it
uses the standard library only.

    python -I -S child.py PARENT_PID COMMAND [ARGUMENT ...]
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
COMMAND_NOT_STARTED = 127


def main(argv: list[str]) -> None:
    parent_pid, command = int(argv[0]), argv[1:]
    end_with_parent(parent_pid)
    try:
        os.execvp(command[0], command)  # noqa: S606 - that is its purpose
    except OSError as error:
        sys.stderr.write(f"{command[0]} did not start: {error.strerror}.\n")
        sys.exit(COMMAND_NOT_STARTED)


def end_with_parent(parent_pid: int) -> None:
    """Have the kernel send SIGTERM to this process when its parent dies, whatever program it is by then.

    Only Linux can. The kernel watches the thread that started this process, so that must be the main thread.
    """
    if not sys.platform.startswith("linux"):
        return
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0:
        sys.stderr.write(f"prctl(PR_SET_PDEATHSIG) failed: {os.strerror(ctypes.get_errno())}.\n")
    if os.getppid() != parent_pid:
        # It died before the call above: no signal will come.
        sys.exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
