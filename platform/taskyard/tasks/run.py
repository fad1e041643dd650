"""The life of one run in the worker, as one readable list.

    RUN = correlate > log > unique (end) > tracking (end) > outcome > scrub > cancel > unique (replaced)
          > breaker > singleton > unique (start) > claim > tracking (start) > soft limit > the task's code

Each layer is a function `layer(run, call_next)`; the last one calls the task. A layer that raises decides
what happens to the message: Celery's `Retry`, `Ignore` and `Reject`, `Snooze` and `Cancel`, or an exception
for a failure. A layer that a task does not need is not among its layers, and costs it nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from celery.exceptions import Retry

from taskyard.errors import AbnormalEndError
from taskyard.tasks import (
    breaking,
    cancelling,
    idempotency,
    scrubbing,
    singleton,
    soft_limit,
    tracking,
    unique_run,
)
from taskyard.tasks.outcome import settle_outcome
from taskyard.tasks.run_context import correlate
from taskyard.tasks.run_log import log_run
from taskyard.tasks.traceback import error_text
from taskyard.tasks.unfit_options import refuse_unstarted


@dataclass(slots=True)
class Run:
    """One execution of a task: what the layers look at.

    Attributes:
        log_start: writes the line that says that the run has started; a parked run has none.
        is_parked: a circuit breaker has not let it begin.
        has_begun: the task's own code was reached.
    """

    task: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    log_start: Callable[[], None] = lambda: None
    is_parked: bool = False
    has_begun: bool = False

    @property
    def request(self) -> Any:
        return self.task.request


Layer = Callable[[Run, Callable[[], Any]], Any]


def _always(_task: Any) -> bool:
    return True


# Each layer, and which tasks need it.
RUN: tuple[tuple[Layer, Callable[[Any], bool]], ...] = (
    (correlate, _always),  # the correlation id of the message is the one of everything published inside
    (log_run, _always),  # one line at the start, one at the end, with the same fields
    (unique_run.free_at_end, _always),  # after its end for good, an equal call is published again
    (tracking.record_end, tracking.is_needed),  # the row of a long task says how the run has ended
    (settle_outcome, _always),  # success, retry, snooze, cancel, or final failure and its dead letter
    (scrubbing.scrub_errors, scrubbing.is_needed),  # no error that leaves here shows a marked argument
    (cancelling.obey_cancel, cancelling.is_needed),  # cancelled while it waited: it does not start
    (unique_run.leave_out_replaced, _always),  # a newer call has replaced it: it does not start
    (breaking.pass_breaker, breaking.is_needed),  # what it calls is down: parked, no attempt used up
    (singleton.hold_singleton, singleton.is_needed),  # one at a time by key
    (unique_run.free_at_start, _always),  # from its start on, an equal call is published again
    (idempotency.claim_once, idempotency.is_needed),  # once by key; a duplicate gets the first result
    (tracking.record_start, tracking.is_needed),  # ... and that it runs
    (soft_limit.watch_soft_limit, soft_limit.is_needed),  # a swallowed soft limit is no success
)


def layers_of(task: Any) -> tuple[Layer, ...]:
    """Return the layers that a task needs, in order."""
    return tuple(layer for layer, is_needed in RUN if is_needed(task))


def run_task(task: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the task through its layers."""
    run = Run(task, args, kwargs)
    layers = task.run_layers

    def call(place: int) -> Any:
        if place == len(layers):
            run.has_begun = True
            return call_task(task, args, kwargs)
        return layers[place](run, lambda: call(place + 1))

    try:
        return call(0)
    except Retry as outcome:
        if getattr(outcome, "snoozed", False):
            # Its frames tell nobody anything, and are 30 KB on the way to the parent for each parked task.
            raise outcome.with_traceback(None) from None
        raise


def call_task(task: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the task's own code; whatever ends it is an error that a policy can decide about.

    Celery retries and records an `Exception` only. A run that ends in anything else (a cancelled coroutine, a
    `BaseExceptionGroup`, a panic in C or Rust code) it acknowledges without a trace.

    Raises:
        AbnormalEndError: the code raised something that is no `Exception`, and that does not end a process.
        TaskDefinitionError: the code has not run: it was called, and nobody awaits or iterates it.
    """
    try:
        result = task.run(*args, **kwargs)
    except (Exception, SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        if type(error).__name__ == "GreenletExit":
            # how a greenlet is ended from outside
            raise
        kind = type(error)
        raise AbnormalEndError(f"{kind.__module__}.{kind.__qualname__}: {error_text(error)}").with_traceback(
            error.__traceback__
        ) from error
    refuse_unstarted(task, result)
    return result
