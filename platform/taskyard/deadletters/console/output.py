"""Where an action writes: text for people, or one JSON value."""

from __future__ import annotations

import json
from typing import IO, Any, cast

from rich.console import Console

from taskyard.deadletters.console.rendering import Screen


class Output:
    """The output of one run of the command.

    Args:
        stdout, stderr: those of the command.
        is_json: for machines.
    """

    def __init__(self, stdout: Any, stderr: Any, *, is_json: bool) -> None:
        self.screen = Screen(Console(file=cast(IO[str], stdout), highlight=False))
        self.is_json = is_json
        self._stdout, self._stderr = stdout, stderr

    def tell(self, record: Any, text: str) -> None:
        """Write the record for machines, or the text for people."""
        if self.is_json:
            self.write(record)
        else:
            self.screen.say(text)

    def write(self, value: Any) -> None:
        """Write a JSON value."""
        self._stdout.write(json.dumps(value, indent=2, ensure_ascii=False))

    def complain(self, text: str) -> None:
        """Write what went wrong with one of several."""
        self._stderr.write(text)


def letters_text(count: int, status: str | None = None) -> str:
    """Return `1 dead letter`, `1,234 open dead letters`."""
    kind = f"{status} dead letter" if status else "dead letter"
    return f"{count:,} {kind}{'' if count == 1 else 's'}"
