"""One readable log of many processes: whole lines, each behind the coloured name of its process."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Protocol

from taskyard.clock import SYSTEM_CLOCK, Clock

RESET = "\x1b[0m"
BOLD = "\x1b[1m"
RED = "\x1b[31m"
# Readable on dark and on light terminals; neighbours differ. Red is for trouble.
PALETTE = tuple(f"\x1b[{code}m" for code in (36, 33, 32, 35, 34, 96, 93, 92, 95, 94))
MAX_LINE_CHARACTERS = 16 * 1024
# A prompt or a progress bar without a line end is shown after this.
PARTIAL_LINE_SECONDS = 1.0
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Everything else that moves the cursor, sets titles or rings: it would tear the log.
_CONTROL = re.compile(
    r"\x1b\[(?![0-9;]*m)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b(?![\[\]])"
    r"|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]"
)


class Stream(Protocol):
    """Where the log goes, usually standard output."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> None: ...

    def isatty(self) -> bool: ...


def wants_colour(stream: Stream, environ: Mapping[str, str]) -> bool:
    """Return whether to colour: on a terminal that can, unless NO_COLOR is set."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


class Console:
    """Writes lines behind the name of who says them.

    Args:
        stream: where to. When it is closed (a terminal, a pipe), `is_gone` is True and lines are dropped.
        names: of the processes; they get the colours in this order.
        speaker: the name before the launcher's own lines.
        colour: whether to colour.
    """

    def __init__(
        self, stream: Stream, names: Iterable[str], *, speaker: str = "up", colour: bool = False
    ) -> None:
        self._stream = stream
        self._speaker = speaker
        self._colour = colour
        self.is_gone = False
        known = list(dict.fromkeys(names))
        self._width = max(len(name) for name in [*known, speaker])
        self._colours = {name: PALETTE[place % len(PALETTE)] for place, name in enumerate(known)} | {
            speaker: BOLD
        }

    def say(self, text: str) -> None:
        """Write lines of the launcher itself."""
        for line in text.split("\n"):
            self.write(self._speaker, line)

    def complain(self, text: str) -> None:
        """Write lines of the launcher itself that tell trouble."""
        for line in text.split("\n"):
            self.write(self._speaker, f"{RED}{line}{RESET}")

    def write(self, name: str, line: str) -> None:
        """Write one line of a process."""
        text = _CONTROL.sub("", line)
        prefix = f"{name:<{self._width}} | "
        if self._colour:
            ending = RESET if "\x1b" in text and not text.endswith(RESET) else ""
            self._put(f"{self._colours.get(name, '')}{prefix}{RESET}{text}{ending}\n")
        else:
            self._put(f"{prefix}{_COLOUR.sub('', text)}\n")

    def _put(self, text: str) -> None:
        if self.is_gone:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except UnicodeEncodeError:
            with suppress(OSError):
                self._stream.write(text.encode("ascii", "replace").decode())
        except (OSError, ValueError):  # a closed stream is a ValueError
            self.is_gone = True


class LineAssembler:
    """Makes whole lines of the pieces in which a process writes.

    A line above `MAX_LINE_CHARACTERS` is shown in parts, one without an end after `PARTIAL_LINE_SECONDS`.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._text = ""
        self._last_fed = clock.monotonic()

    def feed(self, data: bytes) -> list[str]:
        """Take what was read and return the lines that it completes, without their ends."""
        self._last_fed = self._clock.monotonic()
        *lines, self._text = (self._text + self._decoder.decode(data)).split("\n")
        while len(self._text) > MAX_LINE_CHARACTERS:
            lines.append(self._text[:MAX_LINE_CHARACTERS])
            self._text = self._text[MAX_LINE_CHARACTERS:]
        return [_last_overwrite(line) for line in lines]

    def overdue(self) -> list[str]:
        """Return the line that has waited too long for its end, if there is one."""
        if self._text and self._clock.monotonic() - self._last_fed >= PARTIAL_LINE_SECONDS:
            return self._take()
        return []

    def finish(self) -> list[str]:
        """Return what is left when the process has ended."""
        self._text += self._decoder.decode(b"", final=True)
        return self._take() if self._text else []

    def _take(self) -> list[str]:
        text, self._text = self._text, ""
        return [_last_overwrite(text)]


def _last_overwrite(line: str) -> str:
    """Return what a terminal would show of a line that was rewritten with carriage returns."""
    return line.rstrip("\r").rsplit("\r", 1)[-1]
