"""Which dead letters: one filter for the admin, the command and bulk replays alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from django.db.models import Max, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from taskyard.deadletters.models import DeadLetter
from taskyard.errors import DeadLetterError, did_you_mean

_TIMES = ("since", "until")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """A choice of dead letters. What is None does not matter.

    Args:
        queue, task, reason, fingerprint: exactly this one.
        status: "open" unless said otherwise; None for all.
        since, until: written at or after, before; aware.
        search: the id of a task, of a correlation or of a replay's task; where no letter has it, a part of
        the
            task's name, the error or the arguments, which is looked for in each row that the rest leaves.
        ids: these rows only.

    Raises:
        DeadLetterError: a value that no dead letter can have.
    """

    queue: str | None = None
    task: str | None = None
    reason: str | None = None
    fingerprint: str | None = None
    status: str | None = DeadLetter.Status.OPEN.value
    since: datetime | None = None
    until: datetime | None = None
    search: str | None = None
    ids: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        _check_choice("reason", self.reason, DeadLetter.Reason.values)
        _check_choice("status", self.status, DeadLetter.Status.values)
        for name in _TIMES:
            moment = getattr(self, name)
            if moment is not None and (not isinstance(moment, datetime) or moment.tzinfo is None):
                raise DeadLetterError(
                    f"The filter has {name}={moment!r}, which is no moment. Give a date and time with a zone."
                )
        if self.ids is not None:
            object.__setattr__(self, "ids", tuple(self.ids))

    @property
    def is_counted(self) -> bool:
        """Whether the table of counts (`FaultCount`) knows how many letters it leaves."""
        return self.since is None and self.until is None and self.search is None and self.ids is None

    def apply(self, letters: QuerySet[DeadLetter], *, newest_first: bool = False) -> QuerySet[DeadLetter]:
        """Return those of the letters that the filter leaves, in the order that they have.

        Args:
            newest_first: the caller reads them by falling id: the same letters, found faster.
        """
        exact = {
            "queue": self.queue,
            "task_name": self.task,
            "reason": self.reason,
            "fingerprint": self.fingerprint,
            "status": self.status,
            "created_at__gte": self.since,
            "created_at__lt": self.until,
            "pk__in": self.ids,
        }
        letters = letters.filter(**{name: value for name, value in exact.items() if value is not None})
        if self.until is not None and newest_first:
            letters = letters.filter(pk__lte=self._last_before_until())
        return letters if self.search is None else letters.filter(_found_by(self.search))

    def _last_before_until(self) -> Subquery:
        """Return the last id that can be meant: a list, newest first, begins there, not at the newest row."""
        letters = DeadLetter.objects.filter(created_at__lt=self.until).order_by()
        if self.status is not None:
            letters = letters.filter(status=self.status)
        if self.since is not None:
            letters = letters.filter(created_at__gte=self.since)
        # Coalesce: for the bare maximum, PostgreSQL walks the ids from the newest on, reading each row
        last = letters.values(none=Value(1)).annotate(last=Max(Coalesce("pk", Value(0)))).values("last")
        return Subquery(last)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it, without what does not matter; `status` is always there."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        given = {name: value for name, value in values.items() if value is not None}
        for name in _TIMES:
            if name in given:
                given[name] = given[name].isoformat()
        if self.ids is not None:
            given["ids"] = list(self.ids)
        return given | {"status": self.status}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> DeadLetterFilter:
        """Return the filter of a dict as `as_dict` makes it; times may be ISO texts.

        Raises:
            DeadLetterError: a key that is no filter, or a value that no dead letter can have.
        """
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise DeadLetterError(
                    f"{name!r} is not a filter of dead letters.{did_you_mean(str(name), known)} "
                    f"The filters are: {', '.join(known)}."
                )
        values = dict(given)
        for name in _TIMES:
            if isinstance(values.get(name), str):
                values[name] = _moment(name, values[name])
        if values.get("ids") is not None:
            values["ids"] = _numbers(values["ids"])
        return cls(**values)


def _check_choice(name: str, value: str | None, known: Iterable[str]) -> None:
    names = list(known)
    if value is not None and value not in names:
        raise DeadLetterError(
            f"The filter has {name}={value!r}, which does not exist.{did_you_mean(str(value), names)} "
            f"Use one of: {', '.join(names)}."
        )


def _found_by(text: str) -> Q:
    by_id = Q(task_id=text) | Q(correlation_id=text) | Q(replay_task_id=text)
    # First by the indexes: with the parts of texts in the same query, each row would be read.
    if DeadLetter.objects.filter(by_id).order_by().exists():
        return by_id
    fields = ("task_name", "error", "args", "kwargs")
    return Q(*((f"{field}__icontains", text) for field in fields), _connector=Q.OR)


def _moment(name: str, text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise DeadLetterError(
            f"The filter has {name}={text!r}, which is no moment. Write it as in 2026-03-01T12:00+00:00."
        ) from None


def _numbers(values: Any) -> tuple[int, ...]:
    try:
        return tuple(int(value) for value in values)
    except (TypeError, ValueError):
        raise DeadLetterError(f"The filter has ids={values!r}. Give a list of numbers.") from None
