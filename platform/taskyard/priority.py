"""Named priorities: 0 to 9, 9 the most urgent, on every broker."""

from __future__ import annotations

from enum import IntEnum


class Priority(IntEnum):
    """How urgent a message is within its queue.

    Between queues, the queue decides. Every integer from 0 to 9 is allowed; these are the names to use.
    """

    LOWEST = 0
    LOW = 3
    NORMAL = 5
    HIGH = 7
    URGENT = 9


MIN_PRIORITY, MAX_PRIORITY = 0, 9
