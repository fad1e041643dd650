"""The filter above the lists: what a person picks, and the `DeadLetterFilter` that it means."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django import forms

from taskyard.conf import get_settings
from taskyard.deadletters.filters import DeadLetterFilter
from taskyard.deadletters.fingerprints import full_fingerprint
from taskyard.deadletters.models import DeadLetter, FaultCount
from taskyard.errors import DeadLetterError
from taskyard.wording import counted, utc

ALL = "all"
_WITHIN = (
    ("", "any time"),
    ("900", "the last 15 min"),
    ("3600", "the last hour"),
    ("86400", "the last 24 h"),
    ("604800", "the last 7 days"),
)
_TIME_FORMATS = ("%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%d %H:%M", "%Y-%m-%d")
_DETAILS = ("since", "until", "fingerprint")


class UTCDateTimeField(forms.Field):
    """A moment; without a zone it is UTC, whatever the zone of the project."""

    widget = forms.DateTimeInput(attrs={"type": "datetime-local", "step": "1"}, format="%Y-%m-%dT%H:%M:%S")

    def to_python(self, value: Any) -> datetime | None:
        text = (value or "").strip()
        if not text:
            return None
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise forms.ValidationError("Write it as in 2026-03-01T12:00.") from None
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

    def prepare_value(self, value: Any) -> Any:
        # What came in with a zone is shown as the browser's input takes it.
        if not isinstance(value, str) or not value:
            return value
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return value
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


class FilterForm(forms.Form):
    """Reads the filter from a query string. The names are those of `DeadLetterFilter`, and `within`."""

    status = forms.ChoiceField(
        required=False, choices=[*DeadLetter.Status.choices, (ALL, "all")], label="Status"
    )
    queue = forms.ChoiceField(required=False, label="Queue")
    task = forms.CharField(required=False, max_length=255, label="Task")
    reason = forms.ChoiceField(
        required=False, choices=[("", "any"), *DeadLetter.Reason.choices], label="Reason"
    )
    within = forms.ChoiceField(required=False, choices=_WITHIN, label="Came in")
    search = forms.CharField(required=False, max_length=255, label="Id or text")
    since = UTCDateTimeField(required=False, label="From (UTC)")
    until = UTCDateTimeField(required=False, label="Until (UTC)")
    fingerprint = forms.CharField(required=False, max_length=64, label="Fingerprint of the fault")

    def __init__(self, data: Any, *, now: datetime) -> None:
        super().__init__(data)
        self._now = now
        self.fields["task"].widget.attrs["list"] = "task-names"
        queues = _queue_names(given=self.data.get("queue"))
        self.fields["queue"].choices = [("", "any"), *((name, name) for name in queues)]  # type: ignore[attr-defined]
        self.label_suffix = ""

    def clean_fingerprint(self) -> str:
        """Return the whole fingerprint, also where its first digits are given."""
        given = str(self.cleaned_data["fingerprint"])
        try:
            return full_fingerprint(given) if given else ""
        except DeadLetterError as error:
            raise forms.ValidationError(str(error)) from error

    @property
    def visible(self) -> list[forms.BoundField]:
        return [field for field in self if field.name not in _DETAILS]

    @property
    def details(self) -> list[forms.BoundField]:
        """The fields that few people need, shown on demand."""
        return [field for field in self if field.name in _DETAILS]

    @property
    def has_details(self) -> bool:
        return any(self.data.get(name) for name in _DETAILS)

    def chosen(self) -> DeadLetterFilter | None:
        """Return the filter, or None where a field is wrong."""
        if not self.is_valid():
            return None
        given = {name: value for name, value in self.cleaned_data.items() if value not in ("", None)}
        within = given.pop("within", None)
        if within is not None:
            start = self._now - timedelta(seconds=int(within))
            given["since"] = max(start, given.get("since", start))
        if given.get("status") == ALL:
            given["status"] = None
        return DeadLetterFilter(**given)


def query_of(chosen: DeadLetterFilter, **more: Any) -> str:
    """Return the query string that the form reads as this filter."""
    values = chosen.as_dict() | more
    values.pop("ids", None)
    return urlencode(
        {name: ALL if name == "status" and value is None else value for name, value in values.items()}
    )


def describe(chosen: DeadLetterFilter) -> str:
    """Return the filter in words: `task orders.charge_order, queue critical`."""
    words: Iterable[tuple[str, Any]] = (
        ("task", chosen.task),
        ("queue", chosen.queue),
        ("reason", chosen.reason and DeadLetter.Reason(chosen.reason).label),
        ("fault", chosen.fingerprint and _fault(chosen.fingerprint)),
        ("from", chosen.since and f"{utc(chosen.since)} UTC"),
        ("until", chosen.until and f"{utc(chosen.until)} UTC"),
        (
            "with the text",
            chosen.search and f"\N{LEFT DOUBLE QUOTATION MARK}{chosen.search}\N{RIGHT DOUBLE QUOTATION MARK}",
        ),
        ("", f"{len(chosen.ids)} picked one by one" if chosen.ids is not None else None),
    )
    return ", ".join(f"{name} {value}".strip() for name, value in words if value)


def _fault(fingerprint: str) -> str:
    """Return the fingerprint with what it stands for: `9f86d081 (orders.charge_order, CardDeclined)`."""
    fault = FaultCount.objects.filter(fingerprint=fingerprint).first()
    if fault is None:
        return fingerprint
    reason = fault.reason
    error = fault.error_type.rpartition(".")[2] or dict(DeadLetter.Reason.choices).get(reason, reason)
    return f"{fingerprint[:8]} ({fault.task_name or 'no task'}, {error})"


def how_many_open(count: int, chosen: DeadLetterFilter) -> str:
    """Return `12 open letters: queue critical.`"""
    words = describe(chosen)
    return f"{counted(count, 'open letter', 'open letters')}{f': {words}' if words else ', all there are'}."


def _queue_names(given: str | None) -> list[str]:
    names = list(get_settings().queue_table)
    # A queue that is no longer in the table may still have letters.
    return names if not given or given in names else [*names, given]
