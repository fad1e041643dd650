"""The launcher's side of `orphan_killer.py`: it is told which parts run."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType

KILLER = Path(__file__).with_name("orphan_killer.py")
END_TIMEOUT_SECONDS = 5.0


class OrphanGuard:
    """While it is entered, a process watches over the parts: should the launcher die, it ends them."""

    def __init__(self) -> None:
        self._killer: subprocess.Popen[bytes] | None = None

    def note_start(self, pid: int, patience_seconds: float) -> None:
        """A part has started; it may take so long to end after the launcher has died."""
        self._tell(f"+{pid} {patience_seconds}\n")

    def note_end(self, pid: int) -> None:
        """A part has ended."""
        self._tell(f"-{pid}\n")

    def _tell(self, line: str) -> None:
        if self._killer is not None and self._killer.stdin is not None:
            with suppress(BrokenPipeError):  # killed by somebody; the launcher itself still stops its parts
                self._killer.stdin.write(line.encode())

    def __enter__(self) -> OrphanGuard:
        self._killer = subprocess.Popen(
            [sys.executable, "-I", "-S", str(KILLER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd="/",
            start_new_session=True,
        )
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        killer, self._killer = self._killer, None
        if killer is None or killer.stdin is None:
            return
        killer.stdin.close()
        try:
            killer.wait(END_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            killer.kill()
            killer.wait()
