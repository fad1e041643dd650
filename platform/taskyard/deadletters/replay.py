"""Replay: a dead letter is published again, once, as the call that it was.

    open ──claim──► replaying ──publish──► replayed
                        └──── certainly not sent ──► open

The claim is committed before the publish, and holds the id of the new task and its edited arguments. A
process that dies in between leaves `replaying`, and so does an answer of the broker that is lost: the message
may have arrived. After a minute the same message, with the same id, is published by whoever looks first: a
second call of `replay`, or the schedule (`recover_replays`). So a replay is sent at least once, by one click
or by ten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import structlog
from celery import current_app
from celery.utils import uuid
from django.db import router, transaction
from django.db.models import QuerySet

from taskyard.clock import SYSTEM_CLOCK
from taskyard.conf import get_settings
from taskyard.deadletters import counts, replay_audit, transactions
from taskyard.deadletters.models import DeadLetter
from taskyard.deadletters.replay_message import Call, call_of, publish
from taskyard.errors import (
    DeadLetterError,
    DeadLetterNotOpenError,
    DeadLetterNotPublishedError,
    DeadLetterUnconfirmedError,
    TaskyardError,
)
from taskyard.sealing import seal
from taskyard.tasks.publish import is_broker_failure
from taskyard.tasks.tracking import carry_checkpoint

log = structlog.stdlib.get_logger("taskyard.dead_letter")

# A publish takes its budget (2 s) at most; what is not done after this has died.
STALE_AFTER = timedelta(minutes=1)
RECOVERED_A_ROUND = 100


def replay(
    letter_id: int,
    *,
    actor: str,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> str:
    """Publish the call of a dead letter again, and return the id of the new task.

    It keeps queue, priority, headers, correlation id and what follows the task (callbacks, chain, chord). Its
    age begins anew. Inside a transaction it is published after the commit.

    Args:
        letter_id: of an open dead letter.
        actor: who asks for it, for the audit.
        args, kwargs: instead of those it had. A mask in them stands for the true value at the same place.

    Raises:
        DeadLetterNotOpenError: it has been replayed or discarded already; says by whom and when.
        DeadLetterUnconfirmedError: it may have been sent. After a minute the same call is sent again under
            the same task id, by the schedule or by another replay.
        DeadLetterNotPublishedError: the broker did not take it; it is open again.
        DeadLetterError: it cannot be replayed: no such letter, unknown task, arguments that do not fit, ...

    Delivery: at least once. A replay whose process dies is sent again with the same task id.
    """
    letter = _find(letter_id)
    if letter.status == DeadLetter.Status.REPLAYING and args is None and kwargs is None:
        _refuse_if_alive(letter)
        return _send_again(letter, by=actor)
    if letter.status != DeadLetter.Status.OPEN:
        raise _not_open(letter)
    call = call_of(letter, args=args, kwargs=kwargs)
    task_id = letter.replay_task_id or uuid()
    _claim(letter, task_id, call, actor)
    transactions.after_commit(
        lambda: _publish_and_finish(letter, call, actor), using=router.db_for_write(DeadLetter)
    )
    return task_id


def finish_replay(letter_id: int, *, actor: str) -> bool:
    """Publish a replay again, with the same task id, whose process is known to be dead.

    Returns:
        whether it is replayed now; False for one that is open or discarded.

    Raises:
        DeadLetterUnconfirmedError: the broker did not take it; it can be asked for again.
        DeadLetterError: it cannot be replayed any more.
    """
    letter = _find(letter_id)
    if letter.status == DeadLetter.Status.REPLAYING:
        _send_again(letter, by=actor)
        return True
    return letter.status == DeadLetter.Status.REPLAYED


def recover_replays() -> int:
    """Publish the replays whose process has died before it was done; return how many. For the schedule."""
    stuck = DeadLetter.objects.filter(
        status=DeadLetter.Status.REPLAYING, resolved_at__lt=SYSTEM_CLOCK.now() - STALE_AFTER
    )
    recovered = 0
    for letter in stuck.order_by("pk")[:RECOVERED_A_ROUND]:
        try:
            _send_again(letter, by=letter.resolved_by)
            recovered += 1
        except DeadLetterNotPublishedError:
            return recovered
        except DeadLetterError as error:
            log.error("replay not recovered", letter=letter.pk, error=str(error))  # noqa: TRY400
    return recovered


def _find(letter_id: int) -> DeadLetter:
    try:
        return DeadLetter.objects.get(pk=letter_id)
    except DeadLetter.DoesNotExist:
        raise DeadLetterError(f"Dead letter {letter_id} does not exist. It may have been purged.") from None


def _claim(letter: DeadLetter, task_id: str, call: Call, actor: str) -> None:
    """Take the letter, or raise: of two that ask at the same moment, one gets it."""
    now = SYSTEM_CLOCK.now()
    sealed = ""
    if call.is_edited:
        # The process may die before the publish, and nobody else knows the edited arguments.
        sealed = seal({"args": call.args, "kwargs": call.kwargs}, get_settings())
    claim = {
        "status": DeadLetter.Status.REPLAYING,
        "replay_task_id": task_id,
        "replay_sealed": sealed,
        "resolved_at": now,
        "resolved_by": actor[:150],
    }
    mine = DeadLetter.objects.filter(pk=letter.pk, status=DeadLetter.Status.OPEN)
    with transaction.atomic(using=router.db_for_write(DeadLetter)):
        if not _update(mine, letter, before=DeadLetter.Status.OPEN, changes=claim):
            raise _not_open(_find(letter.pk))
        for name, value in claim.items():
            setattr(letter, name, value)
        replay_audit.begin(letter, call, actor)


def _send_again(letter: DeadLetter, *, by: str) -> str:
    """Publish what a dead process may have left unpublished, with the same task id."""
    claimed_at = letter.resolved_at
    now = SYSTEM_CLOCK.now()
    is_mine = DeadLetter.objects.filter(
        pk=letter.pk, status=DeadLetter.Status.REPLAYING, resolved_at=claimed_at
    ).update(resolved_at=now)
    if not is_mine:
        raise _not_open(_find(letter.pk))
    letter.resolved_at = now
    try:
        call = call_of(letter)
    except DeadLetterError:
        _give_up(letter)
        raise
    log.warning("replay of a process that died is published again", letter=letter.pk, actor=by)
    transactions.after_commit(
        lambda: _publish_and_finish(letter, call, letter.resolved_by, is_again=True),
        using=router.db_for_write(DeadLetter),
    )
    return letter.replay_task_id


def _refuse_if_alive(letter: DeadLetter) -> None:
    claimed_at = letter.resolved_at
    if claimed_at is not None and claimed_at > SYSTEM_CLOCK.now() - STALE_AFTER:
        raise _not_open(letter)


def _publish_and_finish(letter: DeadLetter, call: Call, actor: str, *, is_again: bool = False) -> None:
    try:
        if not call.is_edited:  # with other arguments it is another piece of work
            task = current_app.tasks.get(letter.task_name)
            carry_checkpoint(task, from_id=letter.task_id, to_id=letter.replay_task_id)
        publish(letter, call)
    except Exception as error:
        is_the_broker = is_broker_failure(error)
        # nobody knows what came of the first attempt, whatever is said to this one
        if getattr(error, "may_have_arrived", False) or (is_again and is_the_broker):
            raise _unconfirmed(letter, error) from error
        (_give_up if is_again else _give_back)(letter)
        if is_the_broker:
            raise DeadLetterNotPublishedError(
                f"Dead letter {letter.pk} was not replayed, it is open: {error}"
            ) from error
        if isinstance(error, TaskyardError):
            raise DeadLetterError(f"Dead letter {letter.pk} was not replayed: {error}") from error
        raise
    _finish(letter, call, actor)
    log.info(
        "dead letter replayed",
        letter=letter.pk,
        task=letter.task_name,
        task_id=letter.replay_task_id,
        correlation_id=letter.correlation_id,
        actor=actor,
    )


def _finish(letter: DeadLetter, call: Call, actor: str) -> None:
    changes = {"status": DeadLetter.Status.REPLAYED, "resolved_at": SYSTEM_CLOCK.now()}
    with transaction.atomic(using=router.db_for_write(DeadLetter)):
        if not _update(_in_hand(letter), letter, before=DeadLetter.Status.REPLAYING, changes=changes):
            return  # somebody took it for dead and has finished it
        replay_audit.finish(letter, call, actor)


def _unconfirmed(letter: DeadLetter, error: Exception) -> DeadLetterUnconfirmedError:
    task_id = letter.replay_task_id
    return DeadLetterUnconfirmedError(
        f"Dead letter {letter.pk} may have been sent as task {task_id}: look for it first (`manage.py tasks "
        f"show {task_id}`). {STALE_AFTER.seconds} s from now, replaying it again sends the same call under "
        f"the same id, and so does the schedule. {error}"
    )


def _give_up(letter: DeadLetter) -> None:
    """Open one again that may have been sent, and cannot be sent again: its trace stays.

    The next replay may be another call, so it gets another id.
    """
    _open_again(letter, replay_task_id="")


def _give_back(letter: DeadLetter) -> None:
    """Open it again: nothing was sent."""
    with transaction.atomic(using=router.db_for_write(DeadLetter)):
        if _open_again(letter):
            replay_audit.drop(letter)


def _open_again(letter: DeadLetter, **more: Any) -> bool:
    changes = {
        "status": DeadLetter.Status.OPEN,
        "replay_sealed": "",
        "resolved_at": None,
        "resolved_by": "",
        **more,
    }
    return _update(_in_hand(letter), letter, before=DeadLetter.Status.REPLAYING, changes=changes)


def _in_hand(letter: DeadLetter) -> QuerySet[DeadLetter]:
    return DeadLetter.objects.filter(
        pk=letter.pk, status=DeadLetter.Status.REPLAYING, replay_task_id=letter.replay_task_id
    )


def _update(
    mine: QuerySet[DeadLetter], letter: DeadLetter, *, before: DeadLetter.Status, changes: dict[str, Any]
) -> bool:
    """Change the letter if it still is what `mine` says; return whether it was."""
    with transaction.atomic(using=router.db_for_write(DeadLetter)):
        if not mine.update(**changes):
            return False
        place = (letter.fingerprint, letter.queue)
        counts.move([place], before=before.value, after=changes["status"].value)
    return True


def _not_open(letter: DeadLetter) -> DeadLetterError:
    who, when = letter.resolved_by or "somebody", _shown(letter.resolved_at)
    match letter.status:
        case DeadLetter.Status.REPLAYED:
            text = (
                f"has been replayed already: by {who} at {when} as task {letter.replay_task_id}. "
                "If that has failed, too, it has a dead letter of its own."
            )
        case DeadLetter.Status.DISCARDED:
            text = f"has been discarded: by {who} at {when} ({letter.discard_reason}). Open it again first."
        case DeadLetter.Status.REPLAYING:
            text = (
                f"is being replayed: by {who} since {when} as task {letter.replay_task_id}. "
                f"If that is not done {STALE_AFTER.seconds} s later, replay it again: that sends the same "
                "call under the same id."
            )
        case _:
            text = "was open again just now. Ask once more."
    return DeadLetterNotOpenError(f"Dead letter {letter.pk} {text}")


def _shown(moment: datetime | None) -> str:
    return "an unknown time" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"
