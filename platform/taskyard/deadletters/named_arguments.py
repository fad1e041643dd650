"""The arguments of a letter as a table: each with the name that the task gives it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from taskyard.deadletters.registry import find_task
from taskyard.masking import MASK
from taskyard.tasks.redaction import parameters_of
from taskyard.wording import as_text


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument.

    Args:
        name: of the parameter; `argument 2` where nobody knows it.
        text: the value as JSON.
        is_masked: the value is marked, and not shown.
    """

    name: str
    text: str
    is_masked: bool


def arguments_of(task_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Argument]:
    """Return the arguments of a call, positional ones first."""
    return [
        Argument(name, as_text(value), is_masked=value == MASK)
        for name, value in _named(task_name, args, kwargs)
    ]


def _named(task_name: str, args: Any, kwargs: Any) -> Iterator[tuple[str, Any]]:
    # what a broken message holds in place of a list or an object is shown as it is
    positional = args if isinstance(args, list | tuple) else [args]
    names = _positional_names(task_name, len(positional))
    yield from zip(names, positional, strict=True)
    yield from kwargs.items() if isinstance(kwargs, Mapping) else [("keyword arguments", kwargs)]


def _positional_names(task_name: str, count: int) -> list[str]:
    task = find_task(task_name)
    if task is None:
        return [f"argument {place + 1}" for place in range(count)]
    parameters = parameters_of(task.run)
    known = parameters.positional[:count]
    rest = parameters.rest or "argument"
    return [*known, *(f"{rest} {place + 1}" for place in range(len(known), count))]
