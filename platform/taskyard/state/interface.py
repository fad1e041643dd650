"""What every state store promises; `tests/contract/` holds each one to it.

A key has at most one claim at any moment. A claim is *held* by an owner until its lease ends, and can become
*done*, with a result, for as long as its time to live. All times are the store's own: clients' clocks may
differ.

Every operation on a claim names the owner (a token that is made anew for each run, never a task id), and
changes nothing if the claim belongs to somebody else by now.

A lease that has ended makes the claim free for others. As long as nobody else has taken it, it is still the
owner's: renewing, completing and releasing it succeed, for at least `LATE_SECONDS` after its end.

Any text that is not empty is a key. One that no database could hold is stored as its beginning and a digest,
and `Claim.key` says how.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from taskyard.errors import StateUnavailableError

__all__ = ["LATE_SECONDS", "Attempt", "Claim", "StateStore", "StateUnavailableError"]

# For how long an ended lease that nobody else wanted is still its owner's.
LATE_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Claim:
    """What the store knows about a key.

    Args:
        key: what is claimed.
        state: "held" or "done".
        owner: token of the run that holds it, or has completed it.
        fence: grows with each new holder of the key; for the task's own writes ("where fence < mine"). It is
            below 2 ** 53, and grows in leaps.
        holder: who that is, for people and for comparing: task_id, task, worker.
        since: UTC epoch seconds, when it was taken.
        expires_in_seconds: until the lease (held) or the memory (done) ends, from the moment of the answer.
        duplicates: how often somebody else has wanted it meanwhile.
        result: the JSON value given to `complete`; None while held.
        asked_at: monotonic time of this process just before it asked for the claim; its lease counts from it.
    """

    key: str
    state: Literal["held", "done"]
    owner: str
    fence: int
    holder: Mapping[str, Any] = field(default_factory=dict)
    since: float = 0.0
    expires_in_seconds: float = 0.0
    duplicates: int = 0
    result: Any = None
    asked_at: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Attempt:
    """The answer to `acquire`.

    Args:
        is_granted: whether the caller holds the claim now.
        claim: the caller's claim if granted, else the one in the way.
    """

    is_granted: bool
    claim: Claim


class StateStore(Protocol):
    """Claims, leases and registers, shared by the fleet.

    Every method raises `StateUnavailableError` if the store does not answer within the timeout that it was
    made with; then nobody knows whether the operation happened, and repeating it with the same owner is safe.
    """

    name: str

    def acquire(self, key: str, *, owner: str, holder: Mapping[str, Any], lease_seconds: float) -> Attempt:
        """Take the claim if it is free or its lease has ended.

        Again by the same owner, it is renewed, with the same fence. A claim that is done is never granted
        while it is remembered. Not granted counts one duplicate.
        """

    def renew(self, key: str, *, owner: str, lease_seconds: float) -> bool:
        """Prolong a held claim. Return False if it is not the owner's any more (nothing changes then)."""

    def complete(self, key: str, *, owner: str, result: Any, remember_seconds: float) -> bool:
        """Mark a held claim as done, with its JSON result. Return False if it is not the owner's any more.

        Raises:
            TypeError: the result is not JSON; nothing has changed.
        """

    def release(self, key: str, *, owner: str) -> bool:
        """Free a held claim. Return False if it is not the owner's any more, or done."""

    def read(self, key: str) -> Claim | None:
        """Return what is known about the key now; None if it is free."""

    def force_release(self, key: str) -> Claim | None:
        """Free the key whoever holds it, done or not, and return what was there. For people, not for code.

        The next holder still gets a higher fence.
        """

    def find(self, prefix: str, *, state: str | None = None, limit: int = 1000) -> list[Claim]:
        """Return the claims whose keys begin so, oldest first, at most `limit`.

        Args:
            state: "held" or "done" for those only.
        """

    def put_latest(self, key: str, value: str, *, remember_seconds: float) -> str | None:
        """Set a register and return what it held before this value; None if nothing. The last writer wins."""

    def read_latest(self, key: str) -> str | None:
        """Return the value of a register; None if it was never set or is forgotten."""

    def clear_latest(self, key: str, value: str) -> bool:
        """Forget a register if it still holds the value."""

    def ping(self) -> None:
        """Return if the store answers."""

    def close_thread(self) -> None:
        """Give back what the store keeps for the calling thread, for a thread that ends or rests."""
