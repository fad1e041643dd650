"""Redaction: marked arguments never appear in logs, events, Flower or `inspect`.

A task names them: `@shared_task(redact=("card_number",))`. The message itself carries the true values (the
worker needs them); every representation of it carries the mask.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kombu.utils.encoding import safe_repr

from taskyard.masking import MASK
from taskyard.tasks.signature_fit import misfit

# Celery's own limit for argument representations in events (celery/app/amqp.py, argsrepr_maxsize).
REPR_LIMIT = 1024


@dataclass(frozen=True, slots=True)
class Parameters:
    """The names under which a task function takes its arguments.

    Args:
        positional: in order, without `self`.
        named: all that may be given by name.
        rest: the name of its `*args`, None if it has none.
        options: the name of its `**kwargs`, None if it has none.
    """

    positional: tuple[str, ...]
    named: frozenset[str]
    rest: str | None
    options: str | None


@lru_cache(maxsize=1024)
def parameters_of(run: Callable[..., Any]) -> Parameters:
    """Return the parameter names of a task's `run`, as it is called: bound, and through any wrapper."""
    parameters = inspect.signature(run).parameters.values()
    kind = inspect.Parameter
    return Parameters(
        positional=tuple(
            p.name for p in parameters if p.kind in (kind.POSITIONAL_ONLY, kind.POSITIONAL_OR_KEYWORD)
        ),
        named=frozenset(
            p.name for p in parameters if p.kind in (kind.KEYWORD_ONLY, kind.POSITIONAL_OR_KEYWORD)
        ),
        rest=next((p.name for p in parameters if p.kind is kind.VAR_POSITIONAL), None),
        options=next((p.name for p in parameters if p.kind is kind.VAR_KEYWORD), None),
    )


def marks_of(task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Collection[str]:
    """Return the names that the task has marked; "*" for a call that does not fit it.

    As after a deployment that has changed the signature: nobody knows which argument is which.
    """
    return ("*",) if task.redact and misfit(task, args, kwargs) is not None else task.redact


def redact_arguments(
    args: Sequence[Any], kwargs: Mapping[str, Any], *, run: Callable[..., Any], marked: Collection[str]
) -> tuple[list[Any], dict[str, Any]]:
    """Return copies of the arguments with the marked ones masked.

    Args:
        run: the task's `run`, whose parameters have the names.
        marked: names to mask; "*" masks every argument. The name of `*args` or `**kwargs` masks all in it.
    """
    if not marked:
        return list(args), dict(kwargs)
    places, names = _marked_places(args, kwargs, run=run, marked=marked)
    shown_args = [MASK if place in places else value for place, value in enumerate(args)]
    shown_kwargs = {name: MASK if name in names else value for name, value in kwargs.items()}
    return shown_args, shown_kwargs


def marked_values(
    args: Sequence[Any], kwargs: Mapping[str, Any], *, run: Callable[..., Any], marked: Collection[str]
) -> list[Any]:
    """Return the values that `redact_arguments` masks."""
    places, names = _marked_places(args, kwargs, run=run, marked=marked)
    return [args[place] for place in places] + [kwargs[name] for name in names]


def _marked_places(
    args: Sequence[Any], kwargs: Mapping[str, Any], *, run: Callable[..., Any], marked: Collection[str]
) -> tuple[Collection[int], Collection[str]]:
    """Return the places and the names of the arguments that are marked."""
    if "*" in marked:
        return range(len(args)), kwargs.keys()
    names = parameters_of(run)
    places = {place for place in range(len(args)) if _is_marked_place(place, names, marked)}
    return places, {
        name for name in kwargs if name in marked or (name not in names.named and names.options in marked)
    }


def _is_marked_place(place: int, names: Parameters, marked: Collection[str]) -> bool:
    if place < len(names.positional):
        return names.positional[place] in marked
    # More arguments than the task takes: the call is wrong, and any of them may be the marked one.
    return names.rest is None or names.rest in marked


def representation(value: Any) -> str:
    """Return a short text of the arguments, for events and logs."""
    text = safe_repr(value)
    return text if len(text) <= REPR_LIMIT else text[: REPR_LIMIT - 3] + "..."
