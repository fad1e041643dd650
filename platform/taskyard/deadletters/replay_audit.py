"""The audit of a replay: written with the claim, so that one whose end nobody knows has a trace."""

from __future__ import annotations

from typing import Any

from taskyard.deadletters.models import DeadLetter, DeadLetterAction
from taskyard.deadletters.replay_message import Call

# In the detail of an action: until the broker has confirmed the message.
_PENDING = {"sent": "not known yet"}


def begin(letter: DeadLetter, call: Call, actor: str) -> DeadLetterAction:
    """Write who replays it, and with which changes; in the transaction of the claim."""
    kind = DeadLetterAction.Kind.EDIT_AND_REPLAY if call.is_edited else DeadLetterAction.Kind.REPLAY
    detail: dict[str, Any] = {"task_id": letter.replay_task_id, **_PENDING}
    if call.is_edited:
        detail["edited"] = list(call.edited)
        detail["changes"] = [dict(change) for change in call.changes]
    return DeadLetterAction.objects.create(letter=letter, kind=kind, actor=actor[:150], detail=detail)


def finish(letter: DeadLetter, call: Call, actor: str) -> None:
    """Note that the broker has taken the message."""
    # a claim from before an upgrade has no action yet
    action = _pending(letter) or begin(letter, call, actor)
    action.detail = {name: value for name, value in action.detail.items() if name not in _PENDING}
    action.save(update_fields=["detail"])


def drop(letter: DeadLetter) -> None:
    """Take it back: nothing was sent."""
    action = _pending(letter)
    if action is not None:
        action.delete()


def _pending(letter: DeadLetter) -> DeadLetterAction | None:
    wanted = {f"detail__{name}": value for name, value in _PENDING.items()}
    return letter.actions.filter(**wanted, detail__task_id=letter.replay_task_id).order_by("pk").last()
