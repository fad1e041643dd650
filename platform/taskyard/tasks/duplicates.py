"""What is said of a run or a publish that repeats another one: one log line, one signal."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import structlog

from taskyard.signals import duplicate_found
from taskyard.state import Claim

log = structlog.stdlib.get_logger("taskyard.task")


def announce_duplicate(task: Any, request: Any, claim: Claim, *, what: str, outcome: str) -> None:
    """Log that this run repeats another one, and tell the receivers of `duplicate_found`.

    Args:
        claim: the one in the way.
        what: "idempotent" or "singleton".
        outcome: what becomes of this run; see `taskyard.signals`.
    """
    holder = claim.holder
    log.info(
        f"duplicate {outcome}",
        what=what,
        key=claim.key,
        held_by=holder.get("task_id"),
        held_by_task=holder.get("task"),
        held_by_worker=holder.get("worker"),
        since=since(claim),
        is_done=claim.state == "done",
        duplicates=claim.duplicates,
    )
    # what a receiver raises is logged by Django
    duplicate_found.send_robust(
        sender=type(task),
        task=task,
        key=claim.key,
        task_id=request.id,
        holder=dict(holder),
        what=what,
        outcome=outcome,
    )


def holder_text(claim: Claim) -> str:
    """Return "held by ... on ... since ...", for people."""
    holder = claim.holder
    worker = holder.get("worker")
    return (
        f"held by {holder.get('task', 'a task')}[{holder.get('task_id')}]"
        f"{f' on {worker}' if worker else ''} since {since(claim)}"
    )


def since(claim: Claim) -> str:
    """Return when the claim was taken, by the store's clock."""
    return datetime.fromtimestamp(claim.since, UTC).isoformat(timespec="seconds")
