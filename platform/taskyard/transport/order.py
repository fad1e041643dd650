"""In which order a fetch looks at the queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class Order(Protocol):
    """The order of one consumer's queues."""

    def arrange(self, queues: Sequence[str]) -> list[str]:
        """Return the queues in the order in which the next fetch looks at them."""

    def served(self, queue: str, messages: int) -> None:
        """Note that a fetch took messages from a queue."""


class Strict:
    """As they are listed: a later queue is looked at only when the earlier ones are empty."""

    def arrange(self, queues: Sequence[str]) -> list[str]:
        return list(queues)

    def served(self, queue: str, messages: int) -> None:
        del queue, messages


class Weighted:
    """Messages in the proportion of the weights, among the queues that have some: none is starved.

    Each queue has a clock that its messages advance, the slower the greater its weight; the next fetch begins
    with the queue whose clock is furthest behind. A queue that was empty starts again at the present: it
    saves nothing up.

    Args:
        weights: by queue; a queue that is not named has the smallest weight given.
    """

    def __init__(self, weights: Mapping[str, float]) -> None:
        self.weights = dict(weights)
        self._smallest = min(self.weights.values(), default=1.0)
        self._clocks: dict[str, float] = {}
        self._present = 0.0

    def _weight(self, queue: str) -> float:
        return self.weights.get(queue, self._smallest)

    def _clock(self, queue: str) -> float:
        return max(self._present, self._clocks.get(queue, 0.0))

    def arrange(self, queues: Sequence[str]) -> list[str]:
        return sorted(queues, key=lambda queue: (self._clock(queue), -self._weight(queue)))

    def served(self, queue: str, messages: int) -> None:
        self._present = self._clock(queue)
        self._clocks[queue] = self._present + messages / self._weight(queue)
