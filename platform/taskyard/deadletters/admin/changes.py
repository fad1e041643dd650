"""What an edit changes, argument by argument."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from taskyard.deadletters.admin.arguments import arguments_of
from taskyard.deadletters.contents import Content

_NOT_GIVEN = "(not given)"


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
