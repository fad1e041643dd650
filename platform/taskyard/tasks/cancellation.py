"""Cancel a task, whichever it is and wherever it is."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any, Literal

import structlog
from celery import current_app, states

from taskyard.errors import ArgumentError, BrokerUnavailableError, ConfigurationError
from taskyard.tasks import tracked_rows
from taskyard.tasks.broker_questions import ask_broker
from taskyard.transport import cancels, search
from taskyard.transport.cancels import FRESH_SECONDS, CancelNote, HolderAnswer
from taskyard.transport.search import Place

log = structlog.stdlib.get_logger("taskyard.cancel")

DAY_SECONDS = 24 * 3600.0
# A cancellation is remembered for so long, and for a day more than any task can be snoozed.
HOLD_SECONDS = 30 * DAY_SECONDS
# Over all questions to the broker; finding a message in long queues takes the most.
BROKER_SECONDS = 10.0
# How long the worker that holds the task may take to say so.
ANSWER_SECONDS = FRESH_SECONDS + 0.5
PAUSE_SECONDS = 0.01

CancelState = Literal["waiting", "running", "finished", "unknown"]


@dataclass(frozen=True, slots=True)
class CancelOutcome:
    """What `cancel` has found, and what follows.

    Args:
        task_id: the task.
        state: "waiting": it will not start. "running": it has been told, and ends soon. "finished": it had
            ended before, and nothing follows. "unknown": no message of it was found, and nothing says how it
            has ended; if it is on its way somewhere, it will not start.
        is_first: False if it was cancelled before; by and reason are those of the first time.
        by, reason: as given.
        task_name, queue: as far as known.
        worker: the worker that runs it or has reserved it, or "".
        is_confirmed: False if the worker that holds it has not answered: it is frozen, cut off from the
            broker, busy (a solo pool), or a stock one. Whether it has started the task is not known then.
        is_recorded: False if the database did not take the row that people see.
    """

    task_id: str
    state: CancelState
    is_first: bool = True
    by: str = ""
    reason: str = ""
    task_name: str = ""
    queue: str = ""
    worker: str = ""
    is_confirmed: bool = True
    is_recorded: bool = True

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def cancel(task_id: str, *, by: str = "", reason: str = "", app: Any = None) -> CancelOutcome:
    """Cancel a task: it does not start any more, and if it runs it is told to stop.

    Works for every task of the application: waiting, delayed, between two retries, snoozed or running. A task
    that waits does not start after this has returned, on whichever worker, also after restarts of workers and
    of the broker. A running one ends at its next `progress()` or `is_cancelled()` (of a `LongTask`), or gets
    its soft time limit after CANCEL_GRACE_SECONDS (prefork workers only). It ends as REVOKED, without retry
    and without dead letter; what follows it in a chain is not published, a chord is told.

    Takes effect at once, also inside a transaction, and is not undone by its rollback. Does not undo what a
    running task has done already. A worker that is cut off from the broker may start what it had reserved.

    Args:
        task_id: of any task; one that does not exist is no error.
        by: who cancels, for logs and the admin.
        reason: why.
        app: the application; the current one when None.

    Raises:
        ArgumentError: the id is empty.
        BrokerUnavailableError: the broker does not answer. It may have taken the cancellation.
    """
    if not task_id.strip():
        raise ArgumentError("The id of the task to cancel is empty. Give the id that `delay()` has returned.")
    app = current_app._get_current_object() if app is None else app
    now = app.taskyard.clock.now()
    note = CancelNote(by=by, reason=reason, at=now.isoformat(timespec="seconds"))
    earlier = _store(app, task_id, note)
    place, answer = _look(app, task_id)
    is_recorded, row = _record(task_id, note, place, answer, now=now)
    stands = earlier or note
    outcome = CancelOutcome(
        task_id=task_id,
        state=_state(app, task_id, place, answer, row),
        is_first=earlier is None,
        by=stands.by,
        reason=stands.reason,
        task_name=str(place.headers.get("task") or "") if place else getattr(row, "task_name", ""),
        queue=place.queue if place else getattr(row, "queue", ""),
        worker=answer.worker if answer else _process_of(place),
        is_confirmed=place is None or place.where != "held" or answer is not None,
        is_recorded=is_recorded,
    )
    log.info("cancellation stored", **outcome.as_dict())
    return outcome


def _store(app: Any, task_id: str, note: CancelNote) -> CancelNote | None:
    """Make it hold; return the note of an earlier cancellation."""
    hold_seconds = max(HOLD_SECONDS, app.settings.snooze_max_age_seconds + DAY_SECONDS)
    answer = ask_broker(
        app,
        # in a tuple: None is what a broker says that cannot be asked
        lambda client, prefix: (
            cancels.cancel(client, task_id, note, hold_seconds=hold_seconds, prefix=prefix),
        ),
        timeout_seconds=BROKER_SECONDS,
    )
    if answer is None:
        raise ConfigurationError(
            f"The broker {app.conf.broker_url!r} keeps no cancellations. "
            "Use redis://, rediss://, sentinel:// or embedded://."
        )
    return answer[0]


def _look(app: Any, task_id: str) -> tuple[Place | None, HolderAnswer | None]:
    """Find the message, have it dealt with soon, and ask the worker that holds it."""

    def look(client: Any, prefix: str) -> tuple[Place | None, HolderAnswer | None]:
        end = time.monotonic() + ANSWER_SECONDS
        while True:
            place = search.find(client, app.settings.queue_table, task_id, prefix=prefix)
            if place is not None and place.where == "delayed":
                search.bring_forward(client, place, prefix=prefix)
            if place is None or place.where != "held":
                return place, None
            # until the worker answers, or holds it no longer: it may have ended a moment ago
            while search.is_still_held(client, place, prefix=prefix):
                answer = cancels.answer_of(client, task_id, prefix=prefix)
                if answer is not None or time.monotonic() > end:
                    return place, answer
                time.sleep(PAUSE_SECONDS)

    try:
        return ask_broker(app, look, timeout_seconds=BROKER_SECONDS) or (None, None)
    except BrokerUnavailableError as error:
        # it is stored; only where the task is, nobody says
        log.warning("cannot find the cancelled task", task_id=task_id, error=str(error))
        return None, None


def _process_of(place: Place | None) -> str:
    """Return host and process id of the worker that holds the message."""
    return ":".join(place.holder.split(":")[:2]) if place else ""


def _state(app: Any, task_id: str, place: Place | None, answer: HolderAnswer | None, row: Any) -> CancelState:
    if place is not None:
        if place.where != "held":
            return "waiting"
        if answer is None:
            return "unknown"
        return "running" if answer.is_running else "waiting"
    if row is not None and row.state in tracked_rows.ENDED:
        return "finished"
    try:
        return "finished" if app.AsyncResult(task_id).state in states.READY_STATES else "unknown"
    except Exception:
        return "unknown"  # results are off, or their store is away


def _record(
    task_id: str, note: CancelNote, place: Place | None, answer: HolderAnswer | None, *, now: Any
) -> tuple[bool, Any]:
    """Write the row that people see, if there is anything to see; return whether that worked, and the row."""
    try:
        row = tracked_rows.read(task_id)
        is_ended = row is not None and row.state in tracked_rows.ENDED
        if is_ended or (row is None and place is None):
            return True, row
        tracked_rows.request_cancel(
            task_id,
            at=now,
            by=note.by,
            reason=note.reason,
            if_new={
                "task_name": str(place.headers.get("task") or "") if place else "",
                "queue": place.queue if place else "",
                "state": "running" if answer is not None and answer.is_running else "waiting",
            },
        )
    except Exception as error:
        log.warning(
            "the cancellation is not recorded", task_id=task_id, error=f"{type(error).__name__}: {error}"
        )
        return False, None
    return True, row
