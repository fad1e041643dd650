"""Redaction: marked arguments never appear in logs, events, Flower or `inspect`.

A task names them: `@shared_task(redact=("card_number",))`. The message itself carries the true values (the
worker needs them); every representation of it carries the mask.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

from kombu.utils.encoding import safe_repr

from taskyard.masking import MASK

# Celery's own limit for argument representations in events (celery/app/amqp.py, argsrepr_maxsize).
REPR_LIMIT = 1024


@lru_cache(maxsize=1024)
def _positional_names(function: Callable[..., Any]) -> tuple[str, ...]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(p.name for p in inspect.signature(function).parameters.values() if p.kind in kinds)


def positional_names(function: Callable[..., Any], *, bound: bool) -> tuple[str, ...]:
    """Return the names of a task function's positional parameters, without `self` where it is bound."""
    names = _positional_names(function)
    return names[1:] if bound else names


def redact_arguments(
    args: Sequence[Any], kwargs: Mapping[str, Any], *, names: Sequence[str], marked: Collection[str]
) -> tuple[list[Any], dict[str, Any]]:
    """Return copies of the arguments with the marked ones masked.

    Args:
        names: the positional parameter names of the task.
        marked: names to mask; "*" masks every argument.
    """
    everything = "*" in marked
    shown_args = [
        MASK if everything or (place < len(names) and names[place] in marked) else value
        for place, value in enumerate(args)
    ]
    shown_kwargs = {name: MASK if everything or name in marked else value for name, value in kwargs.items()}
    return shown_args, shown_kwargs


def representation(value: Any) -> str:
    """Return a short text of the arguments, for events and logs."""
    text = safe_repr(value)
    return text if len(text) <= REPR_LIMIT else text[: REPR_LIMIT - 3] + "..."
