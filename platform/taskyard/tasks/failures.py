"""Final failures on their way to the dead letter store.

The store is a Django app and registers itself here as the sink, so that the base task depends on no app.
Without a sink, a failure goes to the log with everything that is needed to run the task again.
"""

from __future__ import annotations

import json
import traceback as traceback_module
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from taskyard.conf import get_settings
from taskyard.sealing import seal
from taskyard.tasks import attempts, canvas_parts
from taskyard.tasks.error_place import error_place, error_type
from taskyard.tasks.plain_values import plain
from taskyard.tasks.run_context import correlation_id_of
from taskyard.tasks.scrubbing import is_needed as has_marks
from taskyard.tasks.scrubbing import scrubber_of
from taskyard.tasks.store_outage import OUTAGE
from taskyard.tasks.traceback import described, task_traceback

log = structlog.stdlib.get_logger("taskyard.dead_letter")

LOGGED_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class Failure:
    """A task that will not run again by itself.

    Args:
        args, kwargs: as they may be shown: marked arguments are masked.
        true_args, true_kwargs: as they are, for the store to encrypt where they differ from those shown.
        canvas: what follows the task and belongs to its call (callbacks, errbacks, chain, chord, group,
            group_index, root_id, parent_id, ...), so that a replay goes on where the failure broke off; see
            `taskyard.tasks.canvas_parts`. As it may be shown: what the tasks in it have marked is masked.
        true_canvas: the same with the true arguments, for the store to encrypt where it differs.
        attempts: of every run, oldest first: number, at (UTC epoch seconds), worker, error, traceback; see
            `taskyard.tasks.attempts`.
        error_type: qualified name of the exception; "" where there was none.
        error_place: `file.py:line in function` of the innermost frame in the task's own code. With task name
            and error type, it makes the fingerprint by which the same fault is grouped.
        raw: the message as it came, where no task was run. Nobody knows what in it is marked.
    """

    task_name: str
    task_id: str
    reason: str
    queue: str = ""
    priority: int | None = None
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    true_args: Sequence[Any] = field(default=(), repr=False)
    true_kwargs: Mapping[str, Any] = field(default_factory=dict, repr=False)
    canvas: Mapping[str, Any] = field(default_factory=dict, repr=False)
    true_canvas: Mapping[str, Any] = field(default_factory=dict, repr=False)
    worker: str = ""
    attempts: Sequence[Mapping[str, Any]] = ()
    error_type: str = ""
    error_place: str = ""
    headers: Mapping[str, Any] = field(default_factory=dict)
    correlation_id: str = ""
    retries: int = 0
    error: str = ""
    traceback: str = ""
    raw: str = ""


Sink = Callable[[Failure], None]
_sinks: list[Sink] = []


def set_sink(sink: Sink | None) -> None:
    """Set (or, with None, remove) the dead letter store."""
    _sinks[:] = [] if sink is None else [sink]


def record(failure: Failure) -> None:
    """Store a final failure and log it. Returns once it is stored; raises whatever the store raises."""
    try:
        for sink in _sinks:
            sink(failure)
    except Exception as error:
        OUTAGE.begin_or_go_on(error)
        raise
    OUTAGE.end()
    fields = {} if _sinks else _content_of(failure)
    log.error(
        "dead letter"
        if _sinks
        else "dead letter, kept in this log line only: add the app taskyard.deadletters",
        task=failure.task_name,
        task_id=failure.task_id,
        queue=failure.queue,
        reason=failure.reason,
        error=shorten(failure.error),
        correlation_id=failure.correlation_id,
        **fields,
    )


def shorten(text: str) -> str:
    """Return the text as far as a log line should carry it."""
    return (
        text
        if len(text) <= LOGGED_CHARACTERS
        else f"{text[:LOGGED_CHARACTERS]}... ({len(text):,} characters)"
    )


def _content_of(failure: Failure) -> dict[str, str]:
    """Return what is needed to run the task again; what may not be shown is encrypted, as in the store."""
    shown = {
        "args": json.dumps(plain(failure.args)),
        "kwargs": json.dumps(plain(failure.kwargs)),
        "canvas": json.dumps(plain(failure.canvas)),
        "headers": json.dumps(plain(failure.headers)),
    }
    true = [failure.true_args, failure.true_kwargs, failure.true_canvas]
    if any(true) and plain(true) != plain([failure.args, failure.kwargs, failure.canvas]):
        shown["sealed"] = seal(plain(true), get_settings())
    if failure.raw:
        shown["sealed_raw"] = seal(failure.raw, get_settings())
    return shown


def from_run(
    task: Any,
    request: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    error: BaseException,
    reason: str,
) -> Failure:
    """Return the failure of a run: as it may be shown, with marked arguments masked, and as it is."""
    app = task.app
    shown_args, shown_kwargs = canvas_parts.shown_call(task.name, args, kwargs, app)
    true_canvas = canvas_parts.canvas_of(request)
    scrubber = scrubber_of(task, args, kwargs) if has_marks(task) else None
    scrub = (lambda text: text) if scrubber is None else scrubber.text
    delivery = request.delivery_info or {}
    headers = dict(request.headers or {})
    earlier = attempts.earlier_attempts(headers)
    headers.pop(attempts.HEADER, None)
    return Failure(
        task_name=task.name,
        task_id=str(request.id),
        reason=reason,
        queue=delivery.get("routing_key") or "",
        priority=delivery.get("priority"),
        args=shown_args,
        kwargs=shown_kwargs,
        true_args=list(args),
        true_kwargs=dict(kwargs),
        canvas=canvas_parts.shown(true_canvas, app),
        true_canvas=true_canvas,
        worker=request.hostname or "",
        attempts=attempts.with_attempt(earlier, error, worker=request.hostname, scrubber=scrubber),
        error_type=error_type(error),
        error_place=error_place(error),
        headers=headers,
        correlation_id=correlation_id_of(request),
        retries=request.retries or 0,
        error=scrub(described(error)),
        traceback=scrub(
            "".join(traceback_module.format_exception(type(error), error, task_traceback(error)))
        ),
    )
