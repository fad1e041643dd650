"""The message of a replay: the call as it was, with what belonged to the runs that failed left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from taskyard.conf import get_settings
from taskyard.correlation import HEADER as CORRELATION_HEADER
from taskyard.deadletters.changes import audited_changes
from taskyard.deadletters.contents import Content, restored, shown_content, true_content
from taskyard.deadletters.masked_edits import with_true_values
from taskyard.deadletters.models import DeadLetter
from taskyard.deadletters.registry import require_task
from taskyard.deadletters.service import REPLAY_OF
from taskyard.errors import ArgumentError, DeadLetterError, UnsealingError
from taskyard.masking import MASK
from taskyard.priority import MAX_PRIORITY, MIN_PRIORITY
from taskyard.sealing import unseal
from taskyard.tasks import canvas_parts
from taskyard.tasks.chord_parts import reopen_chord
from taskyard.tasks.plain_values import plain
from taskyard.tasks.publish import FIRST_PUBLISHED_AT, PUBLISHED_AT, published_now
from taskyard.tasks.signature_fit import misfit, signature_text

# Headers of the message that belong to Celery's protocol: they are made anew, or are in the canvas.
_PROTOCOL = frozenset(
    {
        "argsrepr",
        "compression",
        "eta",
        "expires",
        "group",
        "group_index",
        "id",
        "ignore_result",
        "kwargsrepr",
        "lang",
        "method",
        "origin",
        "parent_id",
        "replaced_task_nesting",
        "retries",
        "root_id",
        "shadow",
        "stamped_headers",
        "stamps",
        "task",
        "timelimit",
        "timeouts",
    }
)
# Headers that count or describe the runs so far. With the old first publish, a policy with an age limit (and
# a long series of snoozes) would end again at the first failure: a person has decided that it gets its time
# anew.
_OF_RUNS = frozenset(
    {
        FIRST_PUBLISHED_AT,
        PUBLISHED_AT,
        "attempts",
        "redelivered",
        "worker_losses",
        "x-delivery-count",
        REPLAY_OF,
    }
)


@dataclass(frozen=True, slots=True)
class Call:
    """What is published.

    Args:
        args, kwargs: as JSON has them.
        options: of `apply_async`.
        edited: the names of what differs from the dead letter: "args", "kwargs".
        changes: the same argument by argument, as it may be shown: name, before, after.
    """

    task: Any
    args: list[Any]
    kwargs: dict[str, Any]
    options: Mapping[str, Any]
    edited: tuple[str, ...] = ()
    changes: Sequence[Mapping[str, str]] = ()

    @property
    def is_edited(self) -> bool:
        return bool(self.edited)


def call_of(
    letter: DeadLetter, *, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None
) -> Call:
    """Return the call that a replay publishes.

    Raises:
        DeadLetterError: there is no task, this process does not know it, its true arguments cannot be had, or
            they do not fit the signature.
    """
    where = f"Dead letter {letter.pk}"
    if not letter.task_name:
        raise DeadLetterError(
            f"{where} cannot be replayed: its message names no task. "
            "Publish the right call where it came from, and discard this one with a reason."
        )
    task = require_task(letter.task_name, where=where)
    truth = true_content(letter)
    if args is None and kwargs is None and letter.replay_sealed:
        args, kwargs = _edited_before(letter)
    # before anything walks through them: they may be nested without end
    _check_publishable(task, args or (), kwargs or {}, where=where)
    new_args = list(truth.args) if args is None else with_true_values(list(args), truth.args, path="args")
    new_kwargs = (
        dict(truth.kwargs) if kwargs is None else with_true_values(dict(kwargs), truth.kwargs, path="kwargs")
    )
    if not letter.sealed and not letter.sealed_raw:
        _refuse_masks(letter, new_args, new_kwargs)
    if args is not None or kwargs is not None:
        # with the hidden values in their places it may be too large
        _check_publishable(task, new_args, new_kwargs, where=where)
    check_arguments_fit(task, new_args, new_kwargs, where=where)
    changes = {"args": new_args != truth.args, "kwargs": new_kwargs != truth.kwargs}
    edited = tuple(name for name, is_changed in changes.items() if is_changed)
    told = _changes(letter, task, truth, Content(new_args, new_kwargs)) if edited else ()
    return Call(task, new_args, new_kwargs, _options(letter, task, truth.canvas), edited, told)


def _check_publishable(task: Any, args: Sequence[Any], kwargs: Mapping[str, Any], *, where: str) -> None:
    try:
        task.app.check_arguments(task.name, args, dict(kwargs))
    except ArgumentError as error:
        raise DeadLetterError(f"{where} cannot be replayed with these arguments: {error}") from error


def _changes(letter: DeadLetter, task: Any, truth: Content, new: Content) -> Sequence[Mapping[str, str]]:
    args, kwargs = canvas_parts.shown_call(letter.task_name, new.args, new.kwargs, task.app)
    shown_new = Content(plain(args), plain(kwargs))
    return audited_changes(letter.task_name, truth, new, shown_content(letter), shown_new)


def check_arguments_fit(
    task: Any, args: Sequence[Any], kwargs: Mapping[str, Any], *, where: str = "The call"
) -> None:
    """Refuse arguments that the task's function does not take.

    Raises:
        DeadLetterError: says what Python would say, and what the task takes.
    """
    error = misfit(task, args, kwargs)
    if error is not None:
        raise DeadLetterError(
            f"{where} does not fit the task: {error}. The task takes: {signature_text(task)}. "
            "Edit the arguments to fit."
        )


def publish(letter: DeadLetter, call: Call) -> None:
    """Publish the call, at once and within the publish budget.

    Raises:
        PublishError: the broker did not take it.
    """
    reopen_chord(call.task.app, call.options, task_id=letter.task_id)
    with published_now():
        call.task.apply_async(
            restored(call.args),
            restored(call.kwargs),
            task_id=letter.replay_task_id,
            headers=_headers(letter),
            **{"root_id": letter.replay_task_id, **call.options},
        )


def _options(letter: DeadLetter, task: Any, canvas: Mapping[str, Any]) -> dict[str, Any]:
    options = canvas_parts.republish_options(restored(canvas))
    for name in ("time_limit", "soft_time_limit"):
        # A lower limit than today's is left out: it may have been raised because of this very dead letter.
        if name in options and options[name] <= (getattr(task, name) or 0):
            del options[name]
    options["add_to_parent"] = False
    if letter.queue in get_settings().queue_table:
        # of a queue that is no longer there, the router decides, as for a new call
        options["queue"] = letter.queue
    if letter.priority is not None:
        # a stock producer may have sent any number
        options["priority"] = min(max(letter.priority, MIN_PRIORITY), MAX_PRIORITY)
    return options


def _headers(letter: DeadLetter) -> dict[str, Any]:
    kept = {
        name: restored(value)
        for name, value in letter.headers.items()
        if name not in _PROTOCOL and name not in _OF_RUNS
    }
    kept[CORRELATION_HEADER] = letter.correlation_id or letter.task_id or letter.replay_task_id
    kept[REPLAY_OF] = letter.pk
    return kept


def _edited_before(letter: DeadLetter) -> tuple[list[Any], dict[str, Any]]:
    try:
        edited = unseal(letter.replay_sealed, get_settings())
    except UnsealingError as error:
        raise DeadLetterError(f"Dead letter {letter.pk} cannot be opened. {error}") from error
    return edited["args"], edited["kwargs"]


def _refuse_masks(letter: DeadLetter, args: list[Any], kwargs: dict[str, Any]) -> None:
    masked = [f"argument {place + 1}" for place, value in enumerate(args) if value == MASK]
    masked += [f"argument {name!r}" for name, value in kwargs.items() if value == MASK]
    if masked:
        raise DeadLetterError(
            f"Dead letter {letter.pk} cannot be replayed as it is: {', '.join(masked)} is masked, and the "
            "true value was not stored. Edit the arguments: write the values themselves."
        )
