"""Edited arguments in which masks stand for what the editor was not shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from taskyard.errors import DeadLetterError
from taskyard.masking import MASK

_MISSING = object()


def with_true_values(edited: Any, truth: Any, *, path: str) -> Any:
    """Return the edited value; where it is the mask, at any depth, the true value at the same place.

    Raises:
        DeadLetterError: a mask stands where there is no true value.
    """
    if edited == MASK:
        if truth is _MISSING:
            raise DeadLetterError(
                f"{path} is the mask {MASK!r}, and no value is stored for this place. Write the value itself."
            )
        return truth
    if isinstance(edited, Mapping):
        at = truth if isinstance(truth, Mapping) else {}
        return {
            name: with_true_values(item, at.get(name, _MISSING), path=f"{path}[{name!r}]")
            for name, item in edited.items()
        }
    if isinstance(edited, Sequence) and not isinstance(edited, str):
        items = truth if isinstance(truth, Sequence) and not isinstance(truth, str) else ()
        return [
            with_true_values(item, items[place] if place < len(items) else _MISSING, path=f"{path}[{place}]")
            for place, item in enumerate(edited)
        ]
    return edited
