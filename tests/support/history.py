"""What really ran: the probe tasks write one line for each start and end to a file, the tests read it.

A file, because the brokers and databases of these tests are killed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.waiting import wait_until

Record = dict[str, Any]


class History:
    """The runs of the probe tasks of one site.

    Args:
        path: the file that `tests.probe_app.recording` appends to.
        check: called while waiting; raises if waiting is in vain.
    """

    def __init__(self, path: Path, *, check: Callable[[], None]) -> None:
        self.path = path
        self.check = check

    def records(self, event: str | None = None, **fields: Any) -> list[Record]:
        """Return the records of this event with these fields, in the order in which they were written."""
        if not self.path.exists():
            return []
        text = self.path.read_text(encoding="utf-8")
        found = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [
            record
            for record in found
            if event in (None, record["event"])
            and all(record.get(name) == value for name, value in fields.items())
        ]

    def starts(self, key: str) -> list[Record]:
        return self.records("start", key=key)

    def ends(self, key: str) -> list[Record]:
        """Return the runs that came to their own end; a killed one has none."""
        return self.records("end", key=key)

    def keys(self, event: str) -> list[str]:
        return [record["key"] for record in self.records(event)]

    def wait_for_start(self, key: str, *, count: int = 1, timeout_seconds: float = 30.0) -> list[Record]:
        return self._wait(self.starts, "started", key, count, timeout_seconds)

    def wait_for_end(self, key: str, *, count: int = 1, timeout_seconds: float = 30.0) -> list[Record]:
        return self._wait(self.ends, "ended", key, count, timeout_seconds)

    def _wait(
        self, read: Callable[[str], list[Record]], what: str, key: str, count: int, timeout_seconds: float
    ) -> list[Record]:
        def is_there() -> bool:
            found = len(read(key)) >= count
            if not found:
                self.check()
            return found

        wait_until(
            is_there, timeout_seconds=timeout_seconds, what=f"the probe {key!r} has {what} {count} times"
        )
        return read(key)
