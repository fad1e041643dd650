"""All that is known of one task, gathered from the broker, the database and the results."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from celery import states

from taskyard.models import TrackedTask
from taskyard.operations.dead_letters import letters_of
from taskyard.operations.tracked import progress_of
from taskyard.tasks import tracked_rows
from taskyard.tasks.broker_questions import ask_broker
from taskyard.transport import cancels, search
from taskyard.transport.cancels import CancelNote
from taskyard.transport.search import Place
from taskyard.wording import utc

TIMEOUT_SECONDS = 10.0
SHOWN_CHECKPOINT = 200
_WHERE = {
    "waiting": "waits in its queue",
    "delayed": "delayed until {due}",
    "held": "with the worker {holder}, running or reserved",
}


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What is known of a task, in words; "" for what is not.

    Args:
        message: where its message is.
        state: of its row: waiting, running, succeeded, failed or cancelled.
        result_state: Celery's, where results are on.
        cancelled: who has cancelled it, when and why.
        checkpoint: where a further run would begin, as JSON.
        dead_letter: the number of its newest dead letter; None if it has none.
        dead_letter_status: open, replaying, replayed or discarded.
    """

    task_id: str
    task_name: str = ""
    queue: str = ""
    message: str = ""
    state: str = ""
    progress: str = ""
    worker: str = ""
    started_at: str = ""
    finished_at: str = ""
    checkpoint: str = ""
    cancelled: str = ""
    result_state: str = ""
    dead_letter: int | None = None
    dead_letter_status: str = ""

    @property
    def is_unknown(self) -> bool:
        has_message = self.message or self.cancelled
        return not (has_message or self.state or self.result_state) and self.dead_letter is None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def report_on(app: Any, task_id: str) -> TaskReport:
    """Return what is known of a task.

    Raises:
        BrokerUnavailableError: the broker does not answer.
        django.db.Error: the database does not answer.
    """

    def ask(client: Any, prefix: str) -> tuple[Place | None, CancelNote | None]:
        place = search.find(client, app.settings.queue_table, task_id, prefix=prefix)
        return place, cancels.note_of(client, task_id, prefix=prefix)

    place, note = ask_broker(app, ask, timeout_seconds=TIMEOUT_SECONDS) or (None, None)
    row: TrackedTask | None = tracked_rows.read(task_id)
    letter = letters_of([task_id]).get(task_id)
    told: dict[str, Any] = {**_row(row), **_names(place, row, letter)}
    return TaskReport(
        task_id=task_id,
        message=_message(place),
        cancelled=_cancelled(note),
        result_state=_result_state(app, task_id),
        dead_letter=None if letter is None else letter.pk,
        dead_letter_status="" if letter is None else letter.status,
        **told,
    )


def _names(place: Place | None, row: TrackedTask | None, letter: Any) -> dict[str, str]:
    if place is not None:
        return {"task_name": str(place.headers.get("task") or ""), "queue": place.queue}
    known = row if row is not None else letter
    return {"task_name": known.task_name, "queue": known.queue} if known is not None else {}


def _message(place: Place | None) -> str:
    if place is None:
        return ""
    holder = ":".join(place.holder.split(":")[:2])
    return _WHERE[place.where].format(due=place.headers.get("eta"), holder=holder)


def _cancelled(note: CancelNote | None) -> str:
    if note is None:
        return ""
    who = f" by {note.by}" if note.by else ""
    why = f": {note.reason}" if note.reason else ""
    return f"{_at(note.at)}{who}{why}"


def _at(text: str) -> str:
    try:
        return utc(datetime.fromisoformat(text))
    except ValueError:  # of another version
        return text


def _row(row: TrackedTask | None) -> dict[str, str]:
    if row is None:
        return {}
    checkpoint = "" if row.checkpoint is None else json.dumps(row.checkpoint)
    return {
        "state": row.state,
        "progress": progress_of(row),
        "worker": row.worker,
        "started_at": utc(row.started_at) if row.started_at else "",
        "finished_at": utc(row.finished_at) if row.finished_at else "",
        "checkpoint": checkpoint[:SHOWN_CHECKPOINT],
    }


def _result_state(app: Any, task_id: str) -> str:
    try:
        state = str(app.AsyncResult(task_id).state)
    except Exception:
        return ""  # results are off, or their store is away
    return "" if state == states.PENDING else state
