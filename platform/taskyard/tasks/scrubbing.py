"""The layer that keeps marked arguments out of the errors that leave the task's code, and of its log lines.

It lies inside the layers that log, retry and record, so that what they see, and what Celery, its events and
the result store see after them, is masked already. Layers inside it (breaker, claim) decide on the true
error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from celery._state import get_current_worker_task

from taskyard.errors import RedactedError
from taskyard.marked_values import Scrubber, scrubbing, set_source
from taskyard.tasks import canvas_parts, redaction
from taskyard.tasks.error_scrubbing import scrubbed_error

if TYPE_CHECKING:
    from taskyard.tasks.run import Run

# Attribute of a request, so that each log line of its run need not look for the values again.
_OF_REQUEST = "marked_values_scrubber"


def is_needed(task: Any) -> bool:
    """Return whether runs of the task go through this layer."""
    return bool(task.redact) or task.name in canvas_parts.MAPS


def scrub_errors(run: Run, call_next: Callable[[], Any]) -> Any:
    scrubber = scrubber_of(run.task, run.args, run.kwargs)
    with scrubbing(scrubber):
        try:
            return call_next()
        except BaseException as error:
            leaving = scrubbed_error(error, scrubber)
    # outside of the handler, which would hang the true error on it as its context
    try:
        raise leaving
    finally:
        del leaving


def scrubber_of(task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Scrubber:
    """Return what hides the marked arguments of a call."""
    if task.name in canvas_parts.MAPS:
        is_hidden = canvas_parts.maps_what_is_hidden(args, kwargs, task.app)
        return Scrubber(lambda: [kwargs.get("it"), args[1:]] if is_hidden else [])
    return Scrubber(
        lambda: redaction.marked_values(
            args, kwargs, run=task.run, marked=redaction.marks_of(task, args, kwargs)
        )
    )


def _scrubber_of_current_run() -> Scrubber | None:
    """Return that of the run that Celery is at in this thread: before, in and after the task's code."""
    task = get_current_worker_task()
    if task is None or not getattr(task, "redact", None):
        return None
    request = task.request
    scrubber: Scrubber | None = vars(request).get(_OF_REQUEST)
    if scrubber is None:
        scrubber = scrubber_of(task, request.args or (), request.kwargs or {})
        setattr(request, _OF_REQUEST, scrubber)
    return scrubber


# hooks like `before_start` and `on_success` run, and log, outside of the layers
set_source(_scrubber_of_current_run)


def true_error(error: BaseException) -> BaseException:
    """Return the error that the task has raised: for decisions, never to be shown."""
    original = error.original if isinstance(error, RedactedError) else None
    return error if original is None else original


def check_declaration(task: Any) -> None:
    """Refuse options that contradict each other or could never work.

    Raises:
        TaskDefinitionError: names the option, its value and what to write instead.
    """
