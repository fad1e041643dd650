"""The short way of a bulk call: a chunk of messages made from one pattern and pushed in one round trip.

Whatever differs from call to call (id, arguments, their text) is made for each call, the rest once a chunk.
Whoever wraps `apply_async` or listens to `before_task_publish` must see each call, so then the chunk is
published call by call.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import celery
from celery import signals
from kombu.exceptions import BatchPublishError
from kombu.utils.json import dumps

from taskyard.tasks.direct import encode_body, short_repr
from taskyard.tasks.redaction import representation
from taskyard.tasks.representations import shown_representations
from taskyard.transport.direct import FAILURES, NotConnectedError
from taskyard.transport.wire import encode_plain, is_plain

# As they were when this was imported: a tracing library replaces them later.
_APPLY_ASYNC = celery.Task.apply_async
_EMPTY = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}

Call = tuple[str, Sequence[Any], dict[str, Any]]


def send_chunk(task: Any, chunk: Sequence[Call], options: dict[str, Any]) -> bool:
    """Publish the calls, all in one round trip; return False if they have to be published one by one.

    Raises:
        BatchPublishError: nobody knows which of them have arrived.
        TypeError: a call does not fit the task's signature; nothing is sent.
    """
    if not _is_plain_task(task):
        return False
    app = task.app
    merged = {**task._get_exec_options(), **options}
    merged.setdefault("ignore_result", task.ignore_result)
    merged["task_type"] = task
    queue = None if app.router.content_rules else app.direct.queue_of(task.name, (), {}, merged)
    if queue is None:
        return False
    pattern = Pattern(app, task, chunk[0], merged, queue)
    raws = [pattern.message(*call) for call in chunk]
    try:
        app.direct.push_many(queue, pattern.priority, raws)
    except NotConnectedError:
        return False
    except FAILURES as error:
        raise BatchPublishError(str(error)) from error
    return True


def _is_plain_task(task: Any) -> bool:
    kind = type(task)
    return (
        kind.apply_async is _APPLY_ASYNC
        and celery.Task.apply_async is _APPLY_ASYNC
        and kind.shadow_name is celery.Task.shadow_name
        and task._dump_pydantic_arguments is None
        and not signals.before_task_publish.receivers
        and not signals.after_task_publish.receivers
    )


class Pattern:
    """What the messages of a chunk have in common.

    Args:
        call: the first one, which is checked and made as each single call is.
        options: of all calls; complete, but for what `prepare_call` adds.
        queue: where they go.
    """

    def __init__(self, app: Any, task: Any, call: Call, options: dict[str, Any], queue: str) -> None:
        task_id, args, kwargs = call
        prepared = dict(options)
        app.prepare_call(task.name, args, kwargs, task_id, prepared)
        self.envelope, _ = app.direct.envelope(task.name, args, kwargs, task_id, prepared, queue)
        self.headers, self.properties = self.envelope["headers"], self.envelope["properties"]
        self.priority = prepared["priority"]
        self.task = task
        # A call that nothing has caused is the root of what it causes.
        self.is_root = self.headers["root_id"] == task_id
        self.is_own_correlation = self.headers["correlation_id"] == task_id
        self.is_plain = is_plain(self.headers)

    def message(self, task_id: str, args: Sequence[Any], kwargs: dict[str, Any]) -> bytes:
        """Return the message of a call.

        Raises:
            TypeError: the call does not fit the task's signature.
        """
        task, headers, properties = self.task, dict(self.headers), dict(self.properties)
        if task.typing:
            task.__header__(*args, **kwargs)
        shown = shown_representations(task, args, kwargs)
        headers["id"] = properties["correlation_id"] = task_id
        headers["argsrepr"], headers["kwargsrepr"] = shown or (_text_of(tuple(args)), _text_of(kwargs))
        if self.is_root:
            headers["root_id"] = task_id
        if self.is_own_correlation:
            headers["correlation_id"] = task_id
        properties["delivery_tag"] = os.urandom(16).hex()
        envelope = {
            **self.envelope,
            "body": encode_body((args, kwargs, _EMPTY)),
            "headers": headers,
            "properties": properties,
        }
        return encode_plain(envelope) if self.is_plain else dumps(envelope).encode()


def _text_of(arguments: Any) -> str:
    return short_repr(arguments) or representation(arguments)
