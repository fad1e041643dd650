"""What a dead letter holds of its call: as it may be shown, and as it was.

The true arguments are encrypted where some are marked; of a message that no worker understood, the whole
message is, and it is read again here: a deployment may have made the task known meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kombu.utils.json import loads

from taskyard.conf import get_settings
from taskyard.deadletters.models import DeadLetter
from taskyard.deadletters.registry import find_task
from taskyard.errors import DeadLetterError, UnsealingError
from taskyard.sealing import unseal
from taskyard.tasks import canvas_parts
from taskyard.tasks.plain_values import plain

JSON_TYPE = "application/json"
_HEADER = "content-type: "
# What of the canvas is in the body of a message (Celery's protocol 2), and what is in its headers.
_EMBEDDED = ("callbacks", "errbacks", "chain", "chord")
_IN_HEADERS = (
    "group",
    "group_index",
    "root_id",
    "parent_id",
    "ignore_result",
    "expires",
    "timelimit",
    "shadow",
    "stamped_headers",
    "stamps",
    "replaced_task_nesting",
)


@dataclass(frozen=True, slots=True)
class Content:
    """The call of a dead letter, as JSON has it: dates and the like in Kombu's encoding.

    Args:
        canvas: what follows the task; see `taskyard.tasks.canvas_parts`.
    """

    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    canvas: Mapping[str, Any] = field(default_factory=dict)


def true_content(letter: DeadLetter) -> Content:
    """Return the call as it was. Whoever shows it needs the permission, and leaves a trace: see `reveal`.

    Raises:
        DeadLetterError: it cannot be decrypted with the keys of the settings, or its message cannot be read.
    """
    try:
        if letter.sealed:
            return Content(**unseal(letter.sealed, get_settings()))
        if letter.sealed_raw:
            return _of_message(letter, unseal(letter.sealed_raw, get_settings()))
    except UnsealingError as error:
        raise DeadLetterError(f"Dead letter {letter.pk} cannot be opened. {error}") from error
    return Content(letter.args, letter.kwargs, letter.canvas)


def shown_content(letter: DeadLetter) -> Content:
    """Return the call as it may be shown: marked arguments are masked.

    Of a message whose task nobody knows, nothing: nobody knows what in it is marked.
    """
    if not letter.sealed_raw:
        return Content(letter.args, letter.kwargs, letter.canvas)
    task = find_task(letter.task_name)
    if task is None:
        return Content()
    try:
        content = true_content(letter)
    except DeadLetterError:
        return Content()
    args, kwargs = canvas_parts.shown_call(letter.task_name, content.args, content.kwargs, task.app)
    return Content(plain(args), plain(kwargs), plain(canvas_parts.shown(content.canvas, task.app)))


def message_of(letter: DeadLetter) -> str:
    """Return the message as it came, "" where a task was run. Needs the permission, as `true_content` does.

    Raises:
        DeadLetterError: it cannot be decrypted with the keys of the settings.
    """
    if not letter.sealed_raw:
        return ""
    try:
        return str(unseal(letter.sealed_raw, get_settings()))
    except UnsealingError as error:
        raise DeadLetterError(f"Dead letter {letter.pk} cannot be opened. {error}") from error


def restored(value: Any) -> Any:
    """Return the value with dates, UUIDs and Decimals as the caller gave them, from Kombu's encoding."""
    return loads(json.dumps(value))


def _of_message(letter: DeadLetter, message: str) -> Content:
    head, _, body = message.partition("\n\n")
    if not letter.task_name or head != f"{_HEADER}{JSON_TYPE}":
        raise _unreadable(letter, "its message names no task, or is not JSON")
    try:
        args, kwargs, embedded = json.loads(body)
    except (ValueError, TypeError) as error:
        raise _unreadable(letter, f"its message is not a call ({type(error).__name__})") from None
    if not (isinstance(args, list) and isinstance(kwargs, dict) and isinstance(embedded, dict)):
        raise _unreadable(letter, "its message is not a call")
    canvas = {name: embedded.get(name) for name in _EMBEDDED}
    canvas |= {name: letter.headers.get(name) for name in _IN_HEADERS}
    return Content(args, kwargs, {name: value for name, value in canvas.items() if value is not None})


def _unreadable(letter: DeadLetter, why: str) -> DeadLetterError:
    return DeadLetterError(
        f"Dead letter {letter.pk} cannot be replayed: {why}. "
        "Publish the right call where it came from, and discard this one with a reason."
    )
