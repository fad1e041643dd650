"""Retry policies: when to run a failed task again, and when to stop.

A policy is a value. Its decision is a pure function of the attempt number, the age of the task and the
error; jitter is a separate step with an injected random source, so both are tested as properties.
Every policy ends: by count, by age, or by both, whichever comes first.
"""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from taskyard.declared_values import refuse_unknown_parameters
from taskyard.errors import TaskDefinitionError

# 10 minutes: long enough to spare a broken partner, short enough that recovery is seen soon.
DEFAULT_CAP_SECONDS = 600.0
# A `Retry-After` beyond this is a partner's mistake (or an attack): the policy's own bound decides then.
RETRY_AFTER_LIMIT_SECONDS = 24 * 3600.0

Jitter = Callable[[float], float]


def full_jitter(delay_seconds: float) -> float:
    """Return a random part of the delay: spreads a thundering herd best (AWS Architecture Blog, 2015)."""
    return random.uniform(0.0, delay_seconds)  # noqa: S311 - spreading load, not a secret


def no_jitter(delay_seconds: float) -> float:
    """Return the delay unchanged."""
    return delay_seconds


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do after a failed attempt: wait `delay_seconds` and run again, or stop for `reason`."""

    delay_seconds: float | None
    reason: str = ""

    @property
    def is_retry(self) -> bool:
        return self.delay_seconds is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy(ABC):
    """Base of the policies.

    Args:
        max_retries: runs after the first one; None for no bound by count.
        max_age_seconds: no retry is planned to start later than this after the first publish; None for no
            bound by age.
        on: the exceptions to retry; everything else is final at once.
        never_on: exceptions that are final although `on` matches.
        honour_retry_after: wait at least as long as the error's `Retry-After` asks for.

    Raises:
        TaskDefinitionError: the policy has no bound, or a bound is negative.
    """

    max_retries: int | None = 3
    max_age_seconds: float | None = None
    on: tuple[type[BaseException], ...] = (Exception,)
    never_on: tuple[type[BaseException], ...] = ()
    honour_retry_after: bool = True

    def __post_init__(self) -> None:
        if self.max_retries is None and self.max_age_seconds is None:
            raise TaskDefinitionError(
                f"{type(self).__name__} has no bound. Give max_retries or max_age_seconds: "
                "nothing retries for ever."
            )
        for name in ("max_retries", "max_age_seconds"):
            value = getattr(self, name)
            if value is not None and not _is_number(value):
                raise TaskDefinitionError(
                    f"{type(self).__name__} has {name}={value}. It must be a number, 0 or more."
                )

    @abstractmethod
    def delay_seconds(self, attempt: int) -> float:
        """Return the delay before the retry number `attempt` (1 for the first), without jitter."""

    def jitter(self, delay_seconds: float) -> float:
        """Return the delay that is used; the base policy adds no jitter."""
        return delay_seconds

    def matches(self, error: BaseException) -> bool:
        """Return whether this error is worth another attempt."""
        return isinstance(error, self.on) and not isinstance(error, self.never_on)

    def decide(self, error: BaseException, *, retries: int, age_seconds: float, now: datetime) -> Decision:
        """Say whether to run again after `error`.

        Args:
            error: what the attempt raised.
            retries: retries so far; 0 after the first run.
            age_seconds: time since the task was first published.
            now: wall-clock time, for a `Retry-After` that is a date.
        """
        if not self.matches(error):
            return Decision(None, "not_retryable")
        if self.max_retries is not None and retries >= self.max_retries:
            return Decision(None, "retries_exhausted")
        delay = max(0.0, self.jitter(self.delay_seconds(retries + 1)))
        if self.honour_retry_after:
            asked = retry_after_seconds(error, now=now)
            if asked is not None:
                delay = max(delay, min(asked, RETRY_AFTER_LIMIT_SECONDS))
        if self.max_age_seconds is not None and age_seconds + delay > self.max_age_seconds:
            return Decision(None, "age_exceeded")
        return Decision(delay)


@refuse_unknown_parameters
@dataclass(frozen=True, slots=True, kw_only=True)
class Never(RetryPolicy):
    """No retries: the first failure is final."""

    max_retries: int | None = 0

    def delay_seconds(self, attempt: int) -> float:  # noqa: ARG002 - the signature of every policy
        return 0.0

    def decide(
        self,
        error: BaseException,  # noqa: ARG002 - the signature of every policy
        *,
        retries: int,  # noqa: ARG002
        age_seconds: float,  # noqa: ARG002
        now: datetime,  # noqa: ARG002
    ) -> Decision:
        """Say that the failure is final: there was no retry that could be exhausted."""
        return Decision(None, "not_retryable")


@refuse_unknown_parameters
@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed(RetryPolicy):
    """The same delay before every retry: for an outage of known, short length.

    Args:
        seconds: the delay.
        reason: why a fixed delay is right here; the conventions (TY004) ask for it.
    """

    seconds: float
    reason: str = ""

    def __post_init__(self) -> None:
        # dataclass(slots=True) makes a new class, which zero-argument super() would not find
        RetryPolicy.__post_init__(self)
        if not _is_number(self.seconds):
            raise TaskDefinitionError(f"Fixed has seconds={self.seconds}. It must be a number, 0 or more.")

    def delay_seconds(self, attempt: int) -> float:  # noqa: ARG002 - the signature of every policy
        return self.seconds


@refuse_unknown_parameters
@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential(RetryPolicy):
    """`base * factor ** (attempt - 1)` seconds, capped, with full jitter unless told otherwise.

    Args:
        base_seconds: the delay before the first retry.
        factor: growth from one retry to the next; 1 or more.
        cap_seconds: no delay is longer.
        spread: the jitter; `full_jitter` by default, `no_jitter` for none.
    """

    base_seconds: float = 2.0
    factor: float = 2.0
    cap_seconds: float = DEFAULT_CAP_SECONDS
    spread: Jitter = field(default=full_jitter)

    def __post_init__(self) -> None:
        RetryPolicy.__post_init__(self)
        values = (self.base_seconds, self.cap_seconds, self.factor)
        if not all(map(_is_number, values)) or self.factor < 1:
            raise TaskDefinitionError(
                f"Exponential has base_seconds={self.base_seconds}, factor={self.factor}, "
                f"cap_seconds={self.cap_seconds}. Base and cap must be 0 or more, the factor 1 or more."
            )

    def delay_seconds(self, attempt: int) -> float:
        try:
            # floats overflow where integers would grow without end
            delay = self.base_seconds * float(self.factor) ** (attempt - 1)
        except OverflowError:
            return self.cap_seconds
        return min(delay, self.cap_seconds)

    def jitter(self, delay_seconds: float) -> float:
        return self.spread(delay_seconds)


def retry_after_seconds(error: BaseException, *, now: datetime) -> float | None:
    """Return how long the error asks us to wait, or None.

    Looks for a `retry_after` attribute (seconds or a `timedelta`) and for a `Retry-After` header on
    `error.response` (seconds or an HTTP date), as requests and httpx errors carry it. Nonsense counts as not
    asked.
    """
    try:
        value = _asked_for(error)
        if value is None or isinstance(value, bool):
            return None
        seconds = _seconds(value, now=now)
    except Exception:
        # Whatever a foreign error's attributes do: an error on this path would cost the task its retry.
        return None
    return None if math.isnan(seconds) else max(0.0, seconds)


def _asked_for(error: BaseException) -> Any:
    value = getattr(error, "retry_after", None)
    if value is not None:
        return value
    headers = getattr(getattr(error, "response", None), "headers", None)
    return None if headers is None else headers.get("Retry-After")


def _seconds(value: Any, *, now: datetime) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else 0.0
    except (TypeError, ValueError):
        return _seconds_until_http_date(str(value), now=now)


def _is_number(value: float) -> bool:
    return 0 <= value < math.inf


def _seconds_until_http_date(text: str, *, now: datetime) -> float:
    moment = parsedate_to_datetime(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - now).total_seconds()
