"""Where a message of a given priority waits on Redis: the one place that knows it.

Kombu's Redis transport keeps one list per (queue, step) and serves the lowest step first. Taskyard counts the
other way, 0 to 9 with 9 the most urgent, as RabbitMQ does. The mapping here keeps Kombu's key names and gives
NORMAL (5) the plain name of the queue, so that `LLEN high`, Flower, KEDA and stock producers, who know no
priorities, look at the list where ordinary messages are:

    priority   9   8   7   6   5    4   3   2   1   0
    step       1   2   3   4   (0)  5   6   7   8   9      key = queue + separator + step, or just the queue
"""

from __future__ import annotations

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
