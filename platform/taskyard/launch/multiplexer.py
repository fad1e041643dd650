"""Reads the output of all processes in one thread, so that their lines never mix."""

from __future__ import annotations

import os
import selectors
from collections import deque

from taskyard.clock import SYSTEM_CLOCK, Clock
from taskyard.launch.output import Console, LineAssembler
from taskyard.launch.process import Process

READ_BYTES = 64 * 1024
# Of one process at a time, so that one that floods does not silence the others.
READS_IN_A_ROW = 4
# After the end of a process; something that it has left behind may write for ever.
MAX_LAST_READS = 100
KEPT_LINES = 50


class Multiplexer:
    """Shows what processes write, line by line, and keeps the last lines of each."""

    def __init__(self, console: Console, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._console = console
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._assemblers: dict[str, LineAssembler] = {}
        self._kept: dict[str, deque[str]] = {}

    def add(self, process: Process) -> None:
        """Begin to show the output of a process that was just started."""
        if process.output is None:
            return
        self._assemblers[process.name] = LineAssembler(self._clock)
        self._kept.setdefault(process.name, deque(maxlen=KEPT_LINES))
        self._selector.register(process.output, selectors.EVENT_READ, process)

    def pump(self, timeout_seconds: float) -> None:
        """Show what there is; wait for at most the time if there is nothing."""
        for key, _ in self._selector.select(timeout_seconds):
            self._read(key.data)
        for name, assembler in self._assemblers.items():
            self._show(name, assembler.overdue())

    def finish(self, process: Process) -> None:
        """Show the rest of an ended process, and close its pipe."""
        for _ in range(MAX_LAST_READS):
            if not self._read(process):
                break
        if (assembler := self._assemblers.get(process.name)) is not None:
            self._show(process.name, assembler.finish())
        self._close_pipe(process)

    def last_lines(self, process: Process, count: int) -> list[str]:
        """Return the last lines that a process has written, also those that went to its log file."""
        if process.spec.log_file is not None:
            return tail(process.spec.log_file.read_bytes(), count)
        return list(self._kept.get(process.name, ()))[-count:]

    def close(self) -> None:
        self._selector.close()

    def _read(self, process: Process) -> bool:
        """Show a part of what the process has written; return whether there may be more."""
        for _ in range(READS_IN_A_ROW):
            descriptor = process.output
            if descriptor is None:
                return False
            try:
                data = os.read(descriptor, READ_BYTES)
            except BlockingIOError:
                return False
            if not data:
                self._close_pipe(process)
                return False
            self._show(process.name, self._assemblers[process.name].feed(data))
        return True

    def _show(self, name: str, lines: list[str]) -> None:
        for line in lines:
            self._kept[name].append(line)
            self._console.write(name, line)

    def _close_pipe(self, process: Process) -> None:
        if process.output is not None:
            self._selector.unregister(process.output)
            process.close_output()


def tail(content: bytes, count: int) -> list[str]:
    """Return the last lines of a log."""
    return content.decode(errors="replace").splitlines()[-count:]
