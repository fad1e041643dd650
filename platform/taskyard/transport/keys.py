"""The names of all keys on Redis, and where a message of a given priority waits: nothing else knows them.

Kombu's Redis transport keeps one list per (queue, step) and serves the lowest step first. Taskyard counts the
other way, 0 to 9 with 9 the most urgent, as RabbitMQ does. The mapping here keeps Kombu's key names and gives
NORMAL (5) the plain name of the queue, so that `LLEN high`, Flower, KEDA and stock producers, who know no
priorities, look at the list where ordinary messages are:

    priority   9   8   7   6   5    4   3   2   1   0
    step       1   2   3   4   (0)  5   6   7   8   9      key = queue + separator + step, or just the queue
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from taskyard.priority import MAX_PRIORITY, MIN_PRIORITY, Priority

# Kombu's separator between queue and step (kombu/transport/redis.py, Channel.sep).
SEPARATOR = "\x06\x16"
# Steps in the order in which they are served: most urgent first.
STEPS_BY_URGENCY: tuple[int, ...] = (1, 2, 3, 4, 0, 5, 6, 7, 8, 9)


def step_for_priority(priority: int | None) -> int:
    """Return Kombu's step for a priority; None counts as NORMAL, values outside 0 to 9 as the nearest."""
    value = int(Priority.NORMAL) if priority is None else max(MIN_PRIORITY, min(MAX_PRIORITY, priority))
    if value == Priority.NORMAL:
        return 0
    return MAX_PRIORITY + 1 - value if value > Priority.NORMAL else MAX_PRIORITY - value


def key_for_step(queue: str, step: int) -> str:
    """Return the list in which the messages of this step wait."""
    return f"{queue}{SEPARATOR}{step}" if step else queue


def keys_by_urgency(queue: str) -> list[str]:
    """Return every list of the queue, most urgent first."""
    return [key_for_step(queue, step) for step in STEPS_BY_URGENCY]


def keys_of_queue(queue: str) -> list[str]:
    """Return every key that holds messages of the queue.

    Its delayed ones first, then its lists, most urgent first.
    """
    return [delayed_key(queue), *keys_by_urgency(queue)]


def priority_of_step(step: int) -> int:
    """Return the priority that waits at this step; the opposite of `step_for_priority`."""
    if step == 0:
        return int(Priority.NORMAL)
    return MAX_PRIORITY + 1 - step if step < Priority.NORMAL else MAX_PRIORITY - step


def delayed_key(queue: str) -> str:
    """Return the sorted set of the queue's messages that are not yet due."""
    return f"taskyard:delayed:{queue}"


def published_key(queue: str, message: dict[str, Any]) -> str | None:
    """Return the mark of this publish, the same at each attempt; None if nothing identifies it."""
    headers = message.get("headers") or {}
    task_id, published_at = headers.get("id"), headers.get("published_at")
    return f"taskyard:published:{queue}:{task_id}:{published_at}" if task_id and published_at else None


def dead_key(queue: str) -> str:
    """Return the list of the queue's messages that were lost with their worker too often."""
    return f"{queue}.dead"


@dataclass(frozen=True, slots=True)
class LeaseKeys:
    """The keys that belong to no queue, under one prefix."""

    prefix: str = ""

    @property
    def leases(self) -> str:
        """Sorted set: lease id, and when it ends in microseconds since the epoch by the server's clock."""
        return f"{self.prefix}taskyard:leases"

    @property
    def holders(self) -> str:
        """Hash: lease id, and who holds it (JSON)."""
        return f"{self.prefix}taskyard:lease-holders"

    def watching(self, group: str) -> str:
        """Sorted set: leases of waiting workers that the server tells of new messages, and until when."""
        return f"{self.prefix}taskyard:watching:{group}"

    def parked(self, group: str) -> str:
        """List: leases of waiting workers that another worker wakes."""
        return f"{self.prefix}taskyard:parked:{group}"

    def wake(self, lease_id: str) -> str:
        """String: its change wakes the parked worker of this lease."""
        return f"{self.prefix}taskyard:wake:{lease_id}"

    @property
    def paused(self) -> str:
        """Hash: paused queue, and who paused it, when and why (JSON)."""
        return f"{self.prefix}taskyard:paused"

    @property
    def fetched(self) -> str:
        """Hash: queue, and how many of its messages have ever been fetched; two looks at it give the rate."""
        return f"{self.prefix}taskyard:fetched"

    @property
    def cancelled(self) -> str:
        """Sorted set: tasks that are not to start any more, and the version that brought each."""
        return f"{self.prefix}taskyard:cancelled"

    @property
    def cancel_notes(self) -> str:
        """Hash: cancelled task, and who has cancelled it, when and why (JSON)."""
        return f"{self.prefix}taskyard:cancel-notes"

    @property
    def cancel_version(self) -> str:
        """String: the latest version of the cancelled tasks, in microseconds since the epoch."""
        return f"{self.prefix}taskyard:cancel-version"

    def cancel_answer(self, task_id: str) -> str:
        """String: what the worker that holds a cancelled task has said (JSON)."""
        return f"{self.prefix}taskyard:cancel-answer:{task_id}"

    def messages(self, lease_id: str) -> str:
        """Hash: tag, and the list a message came from, a line feed and the message."""
        return f"{self.prefix}taskyard:lease:{lease_id}"
