"""The five queues: what each is for, and the limits, retries and worker that come with it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from taskyard.errors import ConfigurationError, UnknownQueueError, did_you_mean
from taskyard.retry import Exponential, RetryPolicy

HOURS = 3600
ON_EXHAUSTED = ("dead_letter", "drop")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]*")
_NUMBERS = ("start_objective_seconds", "soft_time_limit_seconds", "time_limit_seconds")
_COUNTS = ("prefetch", "processes")


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """One queue.

    Args:
        name: the queue's name on the broker.
        purpose: what belongs on it, in a few words; shown to people.
        start_objective_seconds: 95 % of its tasks start within this time.
        soft_time_limit_seconds: the task gets `SoftTimeLimitExceeded` then.
        time_limit_seconds: its process is killed then; more than the soft limit.
        retry: the policy of tasks that state none.
        on_exhausted: what happens when the retries have ended: a dead letter, or a counted drop.
        prefetch: messages reserved per process.
        processes: pool processes of the queue's worker.
        dedicated: False where a shared worker may serve it.
    """

    name: str
    purpose: str
    start_objective_seconds: float
    soft_time_limit_seconds: float
    time_limit_seconds: float
    retry: RetryPolicy
    on_exhausted: Literal["dead_letter", "drop"] = "dead_letter"
    prefetch: int = 1
    processes: int = 2
    dedicated: bool = True

    def __post_init__(self) -> None:
        self._check_types()
        if not 0 < self.soft_time_limit_seconds < self.time_limit_seconds:
            raise ConfigurationError(
                f"Queue {self.name!r} has a soft limit of {self.soft_time_limit_seconds} s and a hard limit "
                f"of {self.time_limit_seconds} s. The soft limit must be above 0 and below the hard limit."
            )
        for field in ("prefetch", "processes"):
            value = getattr(self, field)
            if value < 1:
                raise ConfigurationError(f"Queue {self.name!r} has {field}={value}. It must be 1 or more.")

    def _check_types(self) -> None:
        # Celery takes the names as a comma-separated list, and a broker's tools in a shell
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(
                f"A queue has the name {self.name!r}. Use letters, digits, '.', '_' and '-' only."
            )
        for field in _NUMBERS + _COUNTS:
            value = getattr(self, field)
            kinds = int if field in _COUNTS else (int, float)
            if isinstance(value, bool) or not isinstance(value, kinds) or not math.isfinite(value):
                raise ConfigurationError(f"Queue {self.name!r} has {field}={value!r}. It must be a number.")
        if not isinstance(self.retry, RetryPolicy):
            raise ConfigurationError(
                f"Queue {self.name!r} has retry={self.retry!r}. Give a policy of taskyard.retry."
            )
        if not isinstance(self.dedicated, bool):
            raise ConfigurationError(
                f"Queue {self.name!r} has dedicated={self.dedicated!r}. Use True or False."
            )
        if self.on_exhausted not in ON_EXHAUSTED:
            raise ConfigurationError(
                f"Queue {self.name!r} has on_exhausted={self.on_exhausted!r}."
                f"{did_you_mean(str(self.on_exhausted), ON_EXHAUSTED)} Use 'dead_letter' or 'drop'."
            )


# The reference values of the conventions. A team changes them in TASKYARD["QUEUES"], not here.
DEFAULT_QUEUES: tuple[QueueSpec, ...] = (
    QueueSpec(
        name="critical",
        purpose="payments, order confirmations: must complete",
        start_objective_seconds=1,
        soft_time_limit_seconds=25,
        time_limit_seconds=30,
        retry=Exponential(max_retries=None, max_age_seconds=24 * HOURS),
        prefetch=1,
        processes=2,
    ),
    QueueSpec(
        name="high",
        purpose="a person is waiting: password reset, outgoing webhooks",
        start_objective_seconds=5,
        soft_time_limit_seconds=55,
        time_limit_seconds=60,
        retry=Exponential(max_retries=5),
        prefetch=1,
        processes=4,
    ),
    QueueSpec(
        name="default",
        purpose="everything else",
        start_objective_seconds=30,
        soft_time_limit_seconds=270,
        time_limit_seconds=300,
        retry=Exponential(max_retries=3),
        prefetch=4,
        processes=4,
    ),
    QueueSpec(
        name="low",
        purpose="best effort: welcome mails, cache warming",
        start_objective_seconds=300,
        soft_time_limit_seconds=540,
        time_limit_seconds=600,
        retry=Exponential(max_retries=3),
        prefetch=4,
        processes=2,
        dedicated=False,
    ),
    QueueSpec(
        name="bulk",
        purpose="imports, exports, re-indexing, media",
        start_objective_seconds=1 * HOURS,
        soft_time_limit_seconds=3540,
        time_limit_seconds=3600,
        retry=Exponential(max_retries=3),
        prefetch=8,
        processes=2,
    ),
)


class QueueTable(Mapping[str, QueueSpec]):
    """The queues of one project, in order of urgency, most urgent first.

    Args:
        specs: the queues, most urgent first.
        default: the queue of tasks that name none.

    Raises:
        UnknownQueueError: the default queue is not among them.
    """

    def __init__(self, specs: Iterable[QueueSpec], *, default: str = "default") -> None:
        self._specs = {spec.name: spec for spec in specs}
        self.default = self.require(default, where="The setting DEFAULT_QUEUE").name

    def __getitem__(self, name: str) -> QueueSpec:
        return self._specs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    def require(self, name: str, *, where: str) -> QueueSpec:
        """Return the queue, or raise `UnknownQueueError`: who named it, and what it may have meant."""
        spec = self._specs.get(name)
        if spec is None:
            raise UnknownQueueError(name, self._specs, where=where)
        return spec


def build_queue_table(overrides: Mapping[str, Mapping[str, Any]], *, default: str = "default") -> QueueTable:
    """Return the default queues with a project's changes applied.

    Args:
        overrides: by queue name, the fields of `QueueSpec` to change. A new name makes a new queue, which
            starts as a copy of `default` and comes after the five.
        default: the queue of tasks that name none.

    Raises:
        ConfigurationError: a field does not exist or has an impossible value.
    """
    specs = {spec.name: spec for spec in DEFAULT_QUEUES}
    changeable = [field.name for field in fields(QueueSpec) if field.name != "name"]
    for name, changes in overrides.items():
        for key in changes:
            if key not in changeable:
                raise ConfigurationError(
                    f"QUEUES[{name!r}] has the unknown field {key!r}.{did_you_mean(str(key), changeable)} "
                    f"The fields are: {', '.join(changeable)}."
                )
        base = specs.get(name) or replace(specs["default"], name=name, purpose="")
        specs[name] = replace(base, **changes)
    return QueueTable(specs.values(), default=default)
