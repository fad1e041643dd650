"""How a circuit breaker is declared: its name, when it opens, and how it closes again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from celery.exceptions import Ignore, Reject, Retry, SoftTimeLimitExceeded

from taskyard.declared_values import refuse_unknown_parameters
from taskyard.errors import ClaimLostError, TaskDefinitionError, TimedOutError
from taskyard.outcomes import Outcome

# Mistakes in our own code: they say nothing about what is called.
PROGRAMMING_ERRORS: tuple[type[BaseException], ...] = (
    AssertionError,
    AttributeError,
    ImportError,
    NameError,
    NotImplementedError,
    RecursionError,
    SyntaxError,
    TypeError,
)
# Decisions about the message, and what the kit has found out about the run.
_DECISIONS: tuple[type[BaseException], ...] = (Outcome, Ignore, Reject, ClaimLostError)
# What is called hangs.
_TOO_LATE: tuple[type[BaseException], ...] = (SoftTimeLimitExceeded, TimedOutError)
# While the probes fail, the breaker stays open twice as long each time, up to so many times the first time.
LONGEST_OPEN_FACTOR = 10

Name = str | Callable[..., Any]


@refuse_unknown_parameters
@dataclass(frozen=True, slots=True)
class Breaker:
    """A circuit breaker around what tasks call, shared by all worker processes.

    Calls pass while it is closed. When too many of them fail it opens: tasks are parked, that is, run again
    later without using up an attempt. After a while single runs probe. Once they succeed, the parked tasks
    come back, few at first and more with each second.

    Args:
        name: what is called, for instance "payments"; a template over argument names, as in "{host}"; or a
            function of the task's arguments. Each value is a breaker of its own.
        failure_rate: opens when at least this part of the calls in the window has failed; above 0, up to 1.
        minimum_calls: with fewer calls in the window it does not open; a quarter of that while it recovers.
        window_seconds: how far back calls count.
        open_seconds: how long it stays open before a run may probe. It doubles with each probe that fails.
        max_open_seconds: up to this; ten times `open_seconds` when None.
        probes: so many runs at a time may probe, and so many have to succeed.
        recovery_seconds: how long the flow is held back after that; 0 for not at all.
        counts: the exceptions that are failures. Others mean that what is called has answered.
        ignores: exceptions that say nothing about it, neither way.

    Our own programming errors (TypeError and the like) are ignored unless `counts` names them. A soft time
    limit that runs out is a failure unless `ignores` names it.

    The state is on Redis or Valkey, and as durable as that server. Where it does not answer, calls pass.
    Not guaranteed: runs that have begun when the breaker opens go on; a run that hangs counts when it ends.

    Raises:
        TaskDefinitionError: a parameter could never work.
    """

    name: Name
    failure_rate: float = 0.5
    minimum_calls: int = 20
    window_seconds: float = 60.0
    open_seconds: float = 30.0
    probes: int = 1
    recovery_seconds: float = 60.0
    counts: tuple[type[BaseException], ...] = (Exception,)
    ignores: tuple[type[BaseException], ...] = ()
    max_open_seconds: float | None = None

    def __post_init__(self) -> None:
        if not (callable(self.name) or (isinstance(self.name, str) and self.name)):
            raise TaskDefinitionError(
                f"Breaker has name={self.name!r}. Name what is called, as in 'payments' or '{{host}}', "
                "or give a function of the task's arguments."
            )
        self._refuse_unless(_is_number(self.failure_rate) and 0 < self.failure_rate <= 1, "failure_rate",
                            "above 0 and at most 1: the part of the calls that fails")  # fmt: skip
        for field in ("minimum_calls", "probes"):
            value = getattr(self, field)
            self._refuse_unless(
                isinstance(value, int) and not isinstance(value, bool) and value >= 1, field, "1 or more"
            )
        for field in ("window_seconds", "open_seconds"):
            value = getattr(self, field)
            self._refuse_unless(_is_number(value) and value > 0, field, "a number of seconds above 0")
        recovery = self.recovery_seconds
        self._refuse_unless(
            _is_number(recovery) and recovery >= 0, "recovery_seconds", "a number of seconds, 0 or more"
        )
        longest = self.max_open_seconds
        self._refuse_unless(
            longest is None or (_is_number(longest) and longest >= self.open_seconds),
            "max_open_seconds",
            f"at least open_seconds, which is {self.open_seconds:g}",
        )
        for field in ("counts", "ignores"):
            self._refuse_unless(
                _are_exceptions(getattr(self, field)), field, "a tuple of exception classes, as in (OSError,)"
            )

    def _refuse_unless(self, is_right: bool, field: str, what: str) -> None:
        if not is_right:
            raise TaskDefinitionError(
                f"Breaker {self.shown_name!r} has {field}={getattr(self, field)!r}. It must be {what}."
            )

    @property
    def shown_name(self) -> str:
        """The name as declared, for messages."""
        return (
            self.name if isinstance(self.name, str) else getattr(self.name, "__qualname__", repr(self.name))
        )

    @property
    def longest_open_seconds(self) -> float:
        """How long it stays open at most between two probes."""
        longest = self.max_open_seconds
        return self.open_seconds * LONGEST_OPEN_FACTOR if longest is None else longest

    def is_failure(self, error: BaseException | None) -> bool | None:
        """Return whether a run that ended so is a failure; None if it says nothing about what is called.

        Args:
            error: what the run raised; None if it came to its end.
        """
        if isinstance(error, Retry):
            # the task asks for a retry itself, and says why
            return None if error.exc is None else self.is_failure(error.exc)
        if error is None:
            return False
        if isinstance(error, (*self.ignores, *_DECISIONS)):
            return None
        if isinstance(error, _TOO_LATE):
            return True
        if isinstance(error, PROGRAMMING_ERRORS):
            return True if isinstance(error, tuple(set(self.counts) - {Exception, BaseException})) else None
        if isinstance(error, self.counts):
            return True
        return False if isinstance(error, Exception) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _are_exceptions(value: Any) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(item, type) and issubclass(item, BaseException) for item in value
    )
