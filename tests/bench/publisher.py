"""The publisher process of a torture run: publishes while faults go on, and keeps a ledger of what was taken.

    python -m tests.bench.publisher SYSTEM LEDGER TASK TASKS BURST RATE SECONDS

BURST tasks are published in bulk at first, the rest one by one with `.delay()`, RATE a second, with the
numbers 0 to TASKS-1 and a duration of SECONDS each.
A line of the ledger: first number, last number, begin, end, outcome.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from tests.bench.client import BATCH_SIZE, Client

ACKNOWLEDGED, UNCERTAIN = "acknowledged", "uncertain"


@dataclass(frozen=True, slots=True)
class Publication:
    """One publish call: the numbers `first` to `last`, when, and whether the broker acknowledged them."""

    first: int
    last: int
    begin: float
    end: float
    outcome: str

    @property
    def numbers(self) -> range:
        return range(self.first, self.last + 1)


def read_ledger(path: Path) -> list[Publication]:
    """Return what a publisher has written so far; half a line at the end is not there yet."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [_parse(line) for line in lines if line.endswith("\n")]


def _parse(line: str) -> Publication:
    first, last, begin, end, outcome = line.split()
    return Publication(int(first), int(last), float(begin), float(end), outcome)


def publish_all(
    client: Client, ledger: TextIO, task_name: str, tasks: int, burst: int, rate: float, seconds: float
) -> None:
    """Publish the whole run."""
    task = client.task(task_name)
    for first in range(0, burst, BATCH_SIZE):
        last = min(first + BATCH_SIZE, burst) - 1
        _record(
            ledger,
            first,
            last,
            lambda f=first, n=last: client.publish_many(task, ((i, seconds) for i in range(f, n + 1))),
        )
    due = time.monotonic()
    for number in range(burst, tasks):
        due = max(due + 1 / rate, time.monotonic() - 1)
        time.sleep(max(0.0, due - time.monotonic()))
        _record(ledger, number, number, lambda n=number: task.delay(n, seconds))


def _record(ledger: TextIO, first: int, last: int, publish: object) -> None:
    begin = time.monotonic()
    try:
        publish()  # type: ignore[operator]
    except Exception as error:
        outcome = UNCERTAIN
        sys.stderr.write(f"{first}-{last}: {type(error).__name__}: {error}\n")
    else:
        outcome = ACKNOWLEDGED
    ledger.write(f"{first} {last} {begin:.6f} {time.monotonic():.6f} {outcome}\n")
    ledger.flush()


def main(argv: list[str]) -> None:
    system, path, task_name, tasks, burst, rate, seconds = argv
    with Path(path).open("a") as ledger:
        publish_all(Client(system), ledger, task_name, int(tasks), int(burst), float(rate), float(seconds))


if __name__ == "__main__":
    main(sys.argv[1:])
