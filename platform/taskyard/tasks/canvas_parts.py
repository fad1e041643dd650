"""What follows a task and belongs to its call: kept with a dead letter, and given back when it is replayed.

The canvas of a call is a JSON object. Each key is there only if the message had it:

    callbacks, errbacks   signatures to publish when the task has succeeded, or failed for good
    chain                 the signatures after this one in its chain, the *last first* (as Celery keeps them)
    chord                 the signature of the body that waits for this part
    group, group_index    id of the group that the task is a part of, and its place in there
    root_id, parent_id    ids of the first task of the family, and of the one that published this one
    ignore_result         what the caller said, if anything
    expires               ISO 8601 time after which the task must not start
    timelimit             [hard, soft] in seconds, as the caller gave them; not those of the task or its queue
    shadow                another name for logs and monitoring
    stamped_headers, stamps, replaced_task_nesting   Celery's own bookkeeping

A signature is Celery's: an object with task, args, kwargs, options, subtask_type and immutable. It holds the
arguments of another task, which that task may have marked: `shown` masks them.

Not in it: `reply_to`, which only results over RPC use.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from taskyard.clock import SYSTEM_CLOCK, Clock
from taskyard.masking import MASK
from taskyard.tasks.redaction import redact_arguments

MAX_DEPTH = 50
# Key of the message properties of a run: [hard, soft] as the caller gave them, see `taskyard.worker.request`.
PUBLISHED_LIMITS = "published_timelimit"

_FROM_REQUEST = (
    "callbacks",
    "errbacks",
    "chain",
    "chord",
    "group",
    "group_index",
    "root_id",
    "parent_id",
    "expires",
    "shadow",
    "stamped_headers",
    "stamps",
    "replaced_task_nesting",
)
_OPTIONS = {
    "callbacks": "link",
    "errbacks": "link_error",
    "chain": "chain",
    "chord": "chord",
    "group": "group_id",
    "group_index": "group_index",
    "root_id": "root_id",
    "parent_id": "parent_id",
    "ignore_result": "ignore_result",
    "shadow": "shadow",
    "replaced_task_nesting": "replaced_task_nesting",
}
# Celery's tasks that call another one for each of a list of arguments.
MAPS = ("celery.map", "celery.starmap", "celery.chunks")
_OWN = "celery."


def canvas_of(request: Any) -> dict[str, Any]:
    """Return the canvas of a run, with the true arguments of everything in it; never to be shown."""
    canvas = {name: getattr(request, name, None) for name in _FROM_REQUEST}
    # the class has a default, which no caller has said
    canvas["ignore_result"] = vars(request).get("ignore_result")
    hard, soft = published_limits(request)
    canvas["timelimit"] = None if hard is None and soft is None else [hard, soft]
    canvas["replaced_task_nesting"] = canvas["replaced_task_nesting"] or None
    # a group index of 0 and an ignore_result of False say something
    return {name: value for name, value in canvas.items() if value is not None and value not in ([], {}, "")}


def published_limits(request: Any) -> tuple[float | None, float | None]:
    """Return the (hard, soft) limits that the caller gave, each None if not given."""
    properties = request.properties
    limits = properties.get(PUBLISHED_LIMITS) if isinstance(properties, Mapping) else None
    hard, soft = (limits or request.timelimit or (None, None))[:2]
    return hard, soft


def republish_options(canvas: Mapping[str, Any], *, clock: Clock = SYSTEM_CLOCK) -> dict[str, Any]:
    """Return the options with which `apply_async` puts the task back into its canvas.

    An `expires` that is past is left out: who replays a task wants it to run.

    Args:
        canvas: as `canvas_of` has made it, also when it has been through JSON.
        clock: what time it is.
    """
    options = {option: canvas[part] for part, option in _OPTIONS.items() if canvas.get(part) is not None}
    hard, soft = canvas.get("timelimit") or (None, None)
    if hard is not None:
        options["time_limit"] = hard
    if soft is not None:
        options["soft_time_limit"] = soft
    if _is_ahead(canvas.get("expires"), clock.now()):
        options["expires"] = canvas["expires"]
    names = canvas.get("stamped_headers")
    if names:
        stamps = canvas.get("stamps") or {}
        options |= {"stamped_headers": list(names), **{name: stamps.get(name) for name in names}}
    return options


def _is_ahead(expires: Any, now: datetime) -> bool:
    try:
        moment = datetime.fromisoformat(expires)
    except (TypeError, ValueError):
        return False
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) > now


def shown(value: Any, app: Any, depth: int = 0) -> Any:
    """Return a copy of any JSON value in which every signature shows its arguments masked where it must.

    Masked are the marked arguments of a task; of a task that this process does not know, all of them. Where a
    signature is to get the result of the task before it, nobody knows the places of its positional arguments
    yet: if its task marks anything, all of them are masked.

    Args:
        app: knows which task marks what.
    """
    if depth > MAX_DEPTH:
        return MASK
    if isinstance(value, Mapping):
        if is_signature(value):
            return _shown_signature(value, app, depth)
        return {key: shown(item, app, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [shown(item, app, depth + 1) for item in value]
    return value


def is_signature(value: Any) -> bool:
    """Return whether a value is one of Celery's signatures, as an object or as it comes with JSON."""
    return (
        isinstance(value, Mapping)
        and isinstance(value.get("task"), str)
        and ("args" in value or "kwargs" in value)
    )


def _shown_signature(signature: Mapping[str, Any], app: Any, depth: int) -> dict[str, Any]:
    args, kwargs = signature.get("args") or [], signature.get("kwargs") or {}
    rest = {
        key: shown(item, app, depth + 1) for key, item in signature.items() if key not in ("args", "kwargs")
    }
    shown_args, shown_kwargs = shown_call(
        signature["task"], args, kwargs, app, is_partial=not signature.get("immutable"), depth=depth
    )
    return {**rest, "args": shown_args, "kwargs": shown_kwargs}


def shown_call(
    name: str, args: Any, kwargs: Any, app: Any, *, is_partial: bool = False, depth: int = 0
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call of the task `name` as they may be shown, signatures among them too.

    Args:
        is_partial: what comes before these positional arguments is not known yet.
    """
    task = app.tasks.get(name)
    if not isinstance(args, (list, tuple)) or not isinstance(kwargs, Mapping):
        return [MASK], {}
    if task is None or (name in MAPS and maps_what_is_hidden(args, kwargs, app)):
        return [MASK] * len(args), dict.fromkeys(kwargs, MASK)
    marked = getattr(task, "redact", None)
    if marked:
        if is_partial:
            _, kwargs = redact_arguments((), kwargs, run=task.run, marked=marked)
            args = [MASK] * len(args)
        else:
            args, kwargs = task.redacted(args, dict(kwargs))
    return shown(list(args), app, depth + 1), shown(dict(kwargs), app, depth + 1)


def maps_what_is_hidden(args: Any, kwargs: Mapping[str, Any], app: Any) -> bool:
    """Return whether the task that is called for each of a list marks anything, or is not known."""
    inner = kwargs.get("task", args[0] if args else None)
    name = inner.get("task") if isinstance(inner, Mapping) else inner
    task = app.tasks.get(name)
    return task is None or bool(getattr(task, "redact", None))


def may_hold_signatures(name: str, args: Any, kwargs: Mapping[str, Any]) -> bool:
    """Return whether a call may show the arguments of other tasks; cheap, for each publish."""
    if name.startswith(_OWN):
        return True
    return any(isinstance(value, dict) and "task" in value for value in (*args, *kwargs.values()))
