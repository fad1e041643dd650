"""The account of a demonstration: for every task that was sent, how it ended."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field

from tasks.demo.journal import Entry

FINAL = ("succeeded", "failed", "cancelled")


@dataclass(slots=True)
class QueueAccount:
    """What is known of one queue's tasks, by task id."""

    sent: set[str] = field(default_factory=set)
    ended: dict[str, str] = field(default_factory=dict)
    retried: int = 0
    snoozed: int = 0
    waits: list[float] = field(default_factory=list)
    runs: list[float] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        """Take one event into the account."""
        if entry.kind == "sent":
            self.sent.add(entry.task_id)
            return
        if entry.kind in FINAL:
            self.ended[entry.task_id] = entry.kind
        elif entry.kind == "retried":
            self.retried += 1
        else:
            self.snoozed += 1
        if entry.wait is not None:
            self.waits.append(entry.wait)
        if entry.run is not None:
            self.runs.append(entry.run)

    def count(self, kind: str) -> int:
        return sum(1 for end in self.ended.values() if end == kind)

    @property
    def open(self) -> set[str]:
        """Ids of the tasks that have not ended yet."""
        return self.sent - self.ended.keys()


class Account:
    """The accounts of all queues.

    Args:
        queues: names, in the order in which they are shown.
    """

    def __init__(self, queues: Iterable[str]) -> None:
        self.queues = {name: QueueAccount() for name in queues}
        self.entries = 0

    def add(self, entries: Iterable[Entry]) -> None:
        """Take events into the account."""
        for entry in entries:
            self.entries += 1
            self.queues.setdefault(entry.queue, QueueAccount()).add(entry)

    @property
    def open(self) -> set[str]:
        """Ids of the tasks that have not ended yet, of all queues."""
        return set().union(*(queue.open for queue in self.queues.values()))

    def close(self, dead_letters: set[str]) -> None:
        """Count the tasks that ended as dead letters without a run of their own to report it."""
        for queue in self.queues.values():
            for task_id in queue.open & dead_letters:
                queue.ended[task_id] = "failed"


def median(values: list[float]) -> float | None:
    """Return the median, or None of nothing."""
    return statistics.median(values) if values else None


def percentile_95(values: list[float]) -> float | None:
    """Return the 95th percentile by nearest rank, or None of nothing."""
    return sorted(values)[max(0, -(-len(values) * 95 // 100) - 1)] if values else None
