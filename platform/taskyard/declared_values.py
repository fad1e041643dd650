"""Values of a declaration (breakers, retry policies): a misspelt parameter is told in one line."""

from __future__ import annotations

import inspect
from functools import wraps
from typing import Any, TypeVar

from taskyard.errors import TaskDefinitionError, did_you_mean

Declared = TypeVar("Declared", bound=type[Any])


def refuse_unknown_parameters(declared: Declared) -> Declared:
    """Have a dataclass refuse a parameter that it does not have as a wrong declaration of a task.

    Without it, Python's own TypeError ends the start, and names no other parameter.
    """
    init: Any = inspect.getattr_static(declared, "__init__")
    names = tuple(inspect.signature(init).parameters)[1:]

    @wraps(init)
    def checked(self: Any, *args: Any, **parameters: Any) -> None:
        for name in parameters:
            if name not in names:
                raise TaskDefinitionError(
                    f"{declared.__name__} has the unknown parameter {name!r}.{did_you_mean(name, names)} "
                    f"Its parameters are: {', '.join(names)}."
                )
        init(self, *args, **parameters)

    type.__setattr__(declared, "__init__", checked)
    return declared
