"""Dead letters, faults and bulk replays as JSON has them, for machines."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from taskyard.deadletters.bulk_outcome import came_back_count, sample_of
from taskyard.deadletters.contents import shown_content
from taskyard.deadletters.groups import FaultGroup
from taskyard.deadletters.models import BulkReplay, DeadLetter
from taskyard.deadletters.named_arguments import arguments_of

_SHORT = (
    "id",
    "status",
    "created_at",
    "task_name",
    "task_id",
    "queue",
    "priority",
    "reason",
    "fingerprint",
    "error_type",
    "error_place",
    "error",
    "retries",
    "correlation_id",
)
_LONG = (
    "worker",
    "headers",
    "attempts",
    "traceback",
    "resolved_at",
    "resolved_by",
    "discard_reason",
    "replay_task_id",
    "replay_of_id",
)
_BULK = (
    "id",
    "state",
    "filters",
    "sample",
    "rate_per_second",
    "total",
    "replayed",
    "last_error",
    "started_by",
    "started_at",
    "updated_at",
    "finished_at",
)


def letter_record(letter: DeadLetter) -> dict[str, Any]:
    """Return what a list shows of a letter."""
    return _fields(letter, _SHORT)


def full_record(letter: DeadLetter) -> dict[str, Any]:
    """Return all that may be shown of a letter, with its audit."""
    content = shown_content(letter)
    actions = letter.actions.all()
    return {
        **_fields(letter, _SHORT + _LONG),
        "args": content.args,
        "kwargs": content.kwargs,
        "arguments": [
            {"name": argument.name, "text": argument.text}
            for argument in arguments_of(letter.task_name, content.args, content.kwargs)
        ],
        "canvas": dict(content.canvas),
        "is_sealed": bool(letter.sealed or letter.sealed_raw),
        "actions": [_fields(action, ("kind", "actor", "at", "detail")) for action in actions],
    }


def group_record(group: FaultGroup) -> dict[str, Any]:
    return {name: _json(value) for name, value in asdict(group).items()}


def bulk_record(bulk: BulkReplay) -> dict[str, Any]:
    """Return how far it is; `came_back` is counted up to 10,001."""
    return {
        **_fields(bulk, _BULK),
        "not_sent": bulk.failed,
        "came_back": came_back_count(bulk),
    }


def full_bulk_record(bulk: BulkReplay) -> dict[str, Any]:
    """Return how far it is, and what became of its sample."""
    sample = [
        {
            "id": sampled.letter.pk,
            "task_id": sampled.letter.replay_task_id,
            "came_back_as": sampled.came_back.pk if sampled.came_back else None,
            "error": sampled.came_back.error if sampled.came_back else "",
        }
        for sampled in sample_of(bulk)
    ]
    return {**bulk_record(bulk), "sampled": sample}


def _fields(row: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: _json(getattr(row, name)) for name in names}


def _json(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value
