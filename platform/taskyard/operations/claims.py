"""Claims for operators: singletons that run, idempotent tasks that run or are done, unique calls."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog
from celery import current_app

from taskyard.conf import get_settings
from taskyard.state import Claim, StateStore, state_store
from taskyard.tasks.duplicates import holder_text

log = structlog.stdlib.get_logger("taskyard.operations")

KINDS = ("singleton", "idempotent", "unique")
STATES = ("held", "done")
LIMIT = 200
# What a release means, by kind and state: for whoever is about to do it.
_CONSEQUENCES = {
    ("singleton", "held"): "Its run goes on, if it is alive, and another one may run beside it.",
    ("idempotent", "held"): "Its run goes on, if it is alive, and another one may have the effect again.",
    ("idempotent", "done"): "It is forgotten that this was done: the next call with this key runs again.",
    ("unique", "held"): "A publisher is just at it, or has died: the next equal call is published.",
    ("unique", "done"): "The next equal call is published, though the first one may still wait.",
}


@dataclass(frozen=True, slots=True)
class ShownClaim:
    """A claim as people read it.

    Args:
        claim: as the store knows it.
        kind: one of `KINDS`, or what else the key begins with.
        task: the task's name, or the scope that several share.
        key: the part that the task's declaration makes; "" where it has one for all calls.
    """

    claim: Claim
    kind: str
    task: str
    key: str

    @property
    def since(self) -> datetime:
        return datetime.fromtimestamp(self.claim.since, UTC)

    @property
    def ends_in(self) -> str:
        """How long until the lease or the memory ends, as in "8 s" or "6.9 days"."""
        return duration_text(self.claim.expires_in_seconds)

    @property
    def held_by(self) -> str:
        """Who holds it, or has completed it, in one sentence's part: "held by ... since ..."."""
        text = holder_text(self.claim)
        return text if self.claim.state == "held" else text.replace("held by", "done by", 1)

    @property
    def consequence(self) -> str:
        """What its release means."""
        return _CONSEQUENCES.get((self.kind, self.claim.state), "Whoever holds it does not know.")

    def as_dict(self) -> dict[str, Any]:
        """Return it for machines."""
        claim = self.claim
        return {
            "stored_key": claim.key,
            "kind": self.kind,
            "task": self.task,
            "key": self.key,
            "state": claim.state,
            "holder": dict(claim.holder),
            "since": self.since.isoformat(timespec="seconds"),
            "expires_in_seconds": round(claim.expires_in_seconds, 1),
            "duplicates": claim.duplicates,
            "fence": claim.fence,
        }


def project_store() -> StateStore:
    """Return the state store of the project's application."""
    # of an app that is not ours, there is only what the settings say
    store: StateStore | None = getattr(current_app, "state_store", None)
    return state_store(get_settings()) if store is None else store


def shown(claim: Claim) -> ShownClaim:
    """Return a claim as people read it."""
    kind, _, rest = claim.key.partition(":")
    task, _, key = rest.partition(":")
    return ShownClaim(claim, kind, task, key)


def find_claims(
    store: StateStore,
    *,
    kind: str = "",
    task: str = "",
    prefix: str = "",
    state: str | None = None,
    limit: int = LIMIT,
) -> list[ShownClaim]:
    """Return the claims of a kind and a task, oldest first.

    Args:
        kind: one of `KINDS`; all of them when empty.
        task: the task's whole name; all tasks when empty.
        prefix: what their stored keys begin with, as in "singleton:orders."; instead of kind and task.
        state: "held" or "done"; both when None.
        limit: at most so many.

    Raises:
        StateUnavailableError: the store does not answer.
    """
    kinds = (kind,) if kind else KINDS
    prefixes = [prefix] if prefix else [f"{each}:{task}:" if task else f"{each}:" for each in kinds]
    found = [claim for each in prefixes for claim in store.find(each, state=state, limit=limit)]
    return [shown(claim) for claim in sorted(found, key=lambda claim: (claim.since, claim.key))[:limit]]


def release_claim(store: StateStore, key: str, *, who: str, fence: int | None = None) -> ShownClaim | None:
    """Free a claim whoever holds it, and log who did.

    Args:
        key: as the store knows it.
        who: asks for it.
        fence: of the holder that was looked at; of another one by now, nothing is released.

    Returns:
        what was there; None if it was free, or another's by now.

    Raises:
        StateUnavailableError: the store does not answer.
    """
    if fence is not None:
        now = store.read(key)
        if now is None or now.fence != fence:
            return None
    claim = store.force_release(key)
    if claim is None:
        return None
    released = shown(claim)
    log.info("claim released by hand", key=key, who=who, was=released.held_by, state=claim.state)
    return released


def duration_text(seconds: float) -> str:
    """Return a duration as people say it."""
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"
