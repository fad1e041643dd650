"""The life of one run in the worker, as one readable list.

    RUN = correlate > limits > log > outcome > the task's own code

Each layer is a function `layer(run, call_next)`; the last one calls the task. A layer that raises decides
what happens to the message: Celery's `Retry`, `Ignore` and `Reject`, or an exception for a final failure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from taskyard.tasks.outcome import settle_outcome
from taskyard.tasks.run_context import correlate
from taskyard.tasks.run_log import log_run


@dataclass(slots=True)
class Run:
    """One execution of a task: what the layers look at."""

    task: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def request(self) -> Any:
        return self.task.request


Layer = Callable[[Run, Callable[[], Any]], Any]

RUN: tuple[Layer, ...] = (
    correlate,  # the correlation id of the message is the one of everything published inside
    log_run,  # one line at the start, one at the end, with the same fields
    settle_outcome,  # success, retry, snooze, cancel, or final failure and its dead letter
)


def run_task(task: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the task through the layers."""
    run = Run(task, args, kwargs)

    def call(place: int) -> Any:
        if place == len(RUN):
            return task.run(*args, **kwargs)
        return RUN[place](run, lambda: call(place + 1))

    return call(0)
