"""What an edit changes, argument by argument."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from taskyard.deadletters.contents import Content
from taskyard.deadletters.named_arguments import arguments_of
from taskyard.wording import shorten

_NOT_GIVEN = "(not given)"
_OTHER_HIDDEN = "another value, hidden"
_KEPT_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Change:
    """One argument before and after; unchanged ones are listed too, so that the whole call can be seen."""

    name: str
    before: str
    after: str

    @property
    def is_changed(self) -> bool:
        return self.before != self.after


def changes_between(task_name: str, before: Content, args: list[Any], kwargs: dict[str, Any]) -> list[Change]:
    """Return the arguments of both calls, matched by name: positional or keyword makes no difference."""
    old = {argument.name: argument.text for argument in arguments_of(task_name, before.args, before.kwargs)}
    new = {argument.name: argument.text for argument in arguments_of(task_name, args, kwargs)}
    return [
        Change(name, old.get(name, _NOT_GIVEN), new.get(name, _NOT_GIVEN))
        for name in dict.fromkeys([*old, *new])
    ]


def change_text(change: Mapping[str, str]) -> str:
    """Return a change of the audit in words: `order_id: 16 → 1`."""
    arrow = "\N{RIGHTWARDS ARROW}"
    return f"{change.get('name', '?')}: {change.get('before', '?')} {arrow} {change.get('after', '?')}"


def audited_changes(
    task_name: str, truth: Content, new: Content, shown: Content, shown_new: Content
) -> list[dict[str, str]]:
    """Return what the audit keeps of an edit: only what changes, short, marked arguments masked.

    Args:
        truth, new: the call as it was and as it is sent.
        shown, shown_new: the same as they may be shown.
    """
    changed = {
        change.name for change in changes_between(task_name, truth, new.args, new.kwargs) if change.is_changed
    }
    return [
        {
            "name": change.name,
            "before": shorten(change.before, _KEPT_CHARACTERS),
            "after": shorten(change.after, _KEPT_CHARACTERS) if change.is_changed else _OTHER_HIDDEN,
        }
        for change in changes_between(task_name, shown, shown_new.args, shown_new.kwargs)
        if change.name in changed
    ]
