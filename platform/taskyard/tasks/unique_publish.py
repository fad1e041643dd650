"""How a compared call is published.

Throttle: the publisher claims the key for as long as a publish may take, publishes, and then confirms the
claim for the whole time. So a publisher that dies in between blocks nobody for long. A call that finds such
an unconfirmed claim waits for a part of the publish budget, and then publishes anyway.

Debounce, replace: each call is published; then it is registered as the newest. When an older one comes up in
a worker, it ends as cancelled (`taskyard.tasks.unique_run`).

Whatever goes wrong with the state store, the call is published: a task twice, never none.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import structlog
from celery.utils.time import maybe_make_aware
from django.db import DatabaseError

from taskyard.errors import StateUnavailableError
from taskyard.signals import duplicate_found
from taskyard.state import Claim, new_owner
from taskyard.tasks import latest
from taskyard.tasks.unique import UniqueCall
from taskyard.tasks.unique_header import HEADER, header_for
from taskyard.transport.deadline import deadline

log = structlog.stdlib.get_logger("taskyard.publish")

# Of the publish budget: for one answer of the state store, and for all the waiting before the publish.
STORE_SHARE = 0.25
WAIT_SHARE = 0.5
PAUSE_SECONDS = 0.02
# How much longer than a publish may take an unconfirmed claim stands.
PENDING_MARGIN_SECONDS = 1.0
# How long after it is due an older call may come up and still be known as replaced.
LATE_SECONDS = 3600.0
# The second: in a transaction on SQLite, which has one writer, no claim can be made.
STORE_ERRORS = (StateUnavailableError, DatabaseError)

Send = Callable[[dict[str, Any]], Any]


def publish_unique(
    app: Any, task: Any, call: UniqueCall, task_id: str, options: dict[str, Any], send: Send
) -> Any:
    """Publish with `send(options)`, or return the result object of the call that this one repeats.

    The result has `is_duplicate`: whether it is that of an earlier call.

    Raises:
        PublishError: the broker did not take it; no later call is held back by this one.
    """
    with deadline(app.publish_timeout_seconds):
        if call.mode == "throttle":
            return _publish_first(app, task, call, task_id, options, send)
        return _publish_latest(app, call, task_id, options, send)


def _publish_first(
    app: Any, task: Any, call: UniqueCall, task_id: str, options: dict[str, Any], send: Send
) -> Any:
    store, owner = app.state_store, new_owner()
    pending_seconds = app.publish_timeout_seconds + PENDING_MARGIN_SECONDS
    holder = {"task_id": task_id, "task": call.task, "worker": socket.gethostname(), "pid": os.getpid()}
    try:
        first = _claim(app, call, owner, holder, pending_seconds)
    except STORE_ERRORS as error:
        log.warning("published without comparing: the state store is away", task=call.task, error=str(error))
        return _sent(app, call, task_id, options, send)
    if first is not None and first.state == "done" and first.holder.get("task_id") != task_id:
        return _result_of_first(app, task, call, task_id, options, first)
    try:
        result = _sent(app, call, task_id, options, send, owner)
    except BaseException:
        _quietly(app, lambda: store.release(call.key, owner=owner), "not released after a failed publish")
        raise
    seconds = call.seconds + _delay_seconds(app, options)
    _quietly(
        app,
        lambda: store.complete(call.key, owner=owner, result=None, remember_seconds=seconds),
        "not confirmed: equal calls may be published before its time",
    )
    return result


def _claim(
    app: Any, call: UniqueCall, owner: str, holder: dict[str, Any], pending_seconds: float
) -> Claim | None:
    """Claim the key. Return None if it is ours, else the claim in the way: confirmed, or waited for in vain.

    Raises:
        StateUnavailableError: the store does not answer.
    """
    budget = app.publish_timeout_seconds
    give_up_at = time.monotonic() + budget * WAIT_SHARE
    in_the_way: Claim | None = None
    while True:
        with deadline(budget * STORE_SHARE):
            if in_the_way is None:
                attempt = app.state_store.acquire(
                    call.key, owner=owner, holder=holder, lease_seconds=pending_seconds
                )
                if attempt.is_granted:
                    return None
                in_the_way = attempt.claim
            else:
                in_the_way = app.state_store.read(call.key)
        if in_the_way is None:
            continue
        if in_the_way.state == "done":
            return in_the_way
        if time.monotonic() > give_up_at:
            log.warning(
                "published beside an unconfirmed call: its publisher may have died",
                task=call.task,
                key=call.key,
                unconfirmed_task_id=in_the_way.holder.get("task_id"),
            )
            return in_the_way
        time.sleep(PAUSE_SECONDS)


def _result_of_first(
    app: Any, task: Any, call: UniqueCall, task_id: str, options: dict[str, Any], first: Claim
) -> Any:
    first_id = first.holder.get("task_id")
    log.info("duplicate not published", task=call.task, task_id=task_id, first_task_id=first_id, key=call.key)
    # what a receiver raises is logged by Django
    duplicate_found.send_robust(
        sender=type(task),
        task=task,
        key=call.key,
        task_id=task_id,
        holder=dict(first.holder),
        what="publish",
        outcome="returned",
    )
    result = (options.get("result_cls") or app.AsyncResult)(first_id)
    result.ignored = options.get("ignore_result", True)
    result.is_duplicate = True
    return result


def _publish_latest(app: Any, call: UniqueCall, task_id: str, options: dict[str, Any], send: Send) -> Any:
    this = latest.Call(app.taskyard.clock.now().timestamp(), task_id)
    if call.mode == "debounce":
        options = {**options, "countdown": call.seconds}
    result = _sent(app, call, task_id, options, send, this=this)
    remember = (LATE_SECONDS if call.mode == "debounce" else call.seconds) + _delay_seconds(app, options)
    # after the publish: what is registered is on the broker, so nothing is replaced by nothing
    _quietly(
        app,
        lambda: latest.register(app.state_store, call.key, this, remember_seconds=remember),
        "not registered: an older equal call may run too",
    )
    return result


def _sent(
    app: Any,
    call: UniqueCall,
    task_id: str,
    options: dict[str, Any],
    send: Send,
    owner: str = "",
    this: latest.Call | None = None,
) -> Any:
    this = this or latest.Call(app.taskyard.clock.now().timestamp(), task_id)
    headers = {**(options.get("headers") or {}), HEADER: header_for(call, this, owner)}
    result = send({**options, "headers": headers})
    result.is_duplicate = False
    return result


def _quietly(app: Any, ask: Callable[[], Any], consequence: str) -> None:
    """Ask the state store; its silence changes nothing of the publish, which has its result already."""
    try:
        with deadline(app.publish_timeout_seconds * STORE_SHARE):
            ask()
    except STORE_ERRORS as error:
        log.warning(f"unique call {consequence}", error=str(error))


def _delay_seconds(app: Any, options: dict[str, Any]) -> float:
    """Return how long the message is not due: the time of a call counts from then."""
    countdown, eta = options.get("countdown"), options.get("eta")
    if countdown:
        return max(0.0, float(countdown))
    if not eta:
        return 0.0
    moment = datetime.fromisoformat(eta) if isinstance(eta, str) else maybe_make_aware(eta, UTC)
    return max(0.0, (moment - app.taskyard.clock.now()).total_seconds())
