"""The layers of a run that was compared with others when it was published; all others pass through at once.

They look at the message, not at the task: any call may have the options.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import structlog
from celery.exceptions import Reject, Retry

from taskyard.errors import StateUnavailableError
from taskyard.tasks.latest import cancel_if_replaced
from taskyard.tasks.unique_header import UniqueHeader, unique_header
from taskyard.tasks.unique_publish import STORE_SHARE
from taskyard.transport.deadline import deadline

if TYPE_CHECKING:
    from taskyard.tasks.run import Run

log = structlog.stdlib.get_logger("taskyard.task")

# A claim that is remembered for so long is free.
NO_TIME = 0.0
# Set on the request of a run that has freed its key at its start.
_FREED = "unique_call_is_freed"


def leave_out_replaced(run: Run, call_next: Callable[[], Any]) -> Any:
    """End a debounced or replaced call that is not the newest."""
    header = unique_header(run.request)
    if header is not None and header.mode != "throttle":
        store = run.task.app.state_store
        try:
            cancel_if_replaced(run, store, header.key, header.call, what="publish")
        except StateUnavailableError as error:
            log.warning("task runs, whether it was replaced or not", key=header.key, error=str(error))
    return call_next()


def free_at_start(run: Run, call_next: Callable[[], Any]) -> Any:
    """From here on, an equal call is published: it may see what this run does not see any more."""
    header = unique_header(run.request)
    if header is not None and header.until == "start":
        free(run.task.app, header)
        setattr(run.request, _FREED, True)
    return call_next()


def free_at_end(run: Run, call_next: Callable[[], Any]) -> Any:
    """Free the key when the call has ended for good: not when it runs again later."""
    header = unique_header(run.request)
    if header is None or header.until == "expiry":
        return call_next()
    try:
        result = call_next()
    except Retry:
        raise
    except Exception as end:
        if not (isinstance(end, Reject) and end.requeue):
            _free_once(run, header)
        raise
    _free_once(run, header)
    return result


def free_ended(app: Any, request: Any) -> None:
    """Free the key of a call that has ended without its run's own end: killed, revoked, expired."""
    header = unique_header(request)
    if header is not None and header.until != "expiry":
        # in the worker's main process, which must not stand still for long
        with deadline(app.publish_timeout_seconds * STORE_SHARE):
            free(app, header)


def free(app: Any, header: UniqueHeader) -> None:
    """Let the next equal call be published. Frees nothing that belongs to a later call. Never raises."""
    store = app.state_store
    try:
        # Held: the run was faster than the publisher's confirmation, which then finds nothing to confirm.
        if not store.release(header.key, owner=header.owner):
            store.complete(header.key, owner=header.owner, result=None, remember_seconds=NO_TIME)
    except StateUnavailableError as error:
        log.warning(
            "unique call not freed: equal calls count as duplicates until its time is over",
            key=header.key,
            error=str(error),
        )


def _free_once(run: Run, header: UniqueHeader) -> None:
    # one that was cancelled before its start, for instance, has it still
    if not getattr(run.request, _FREED, False):
        free(run.task.app, header)
