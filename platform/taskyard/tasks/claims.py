"""The claim of a run: what the task sees of it, and how it is settled when the run has ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog
from kombu.utils.json import dumps, loads

from taskyard.clock import SYSTEM_CLOCK, Clock
from taskyard.errors import ClaimLostError, StateUnavailableError
from taskyard.state import Claim, Lease, StateStore

log = structlog.stdlib.get_logger("taskyard.task")

# Between two attempts to record a finished run while the store is away.
PAUSE_SECONDS = 0.3


class RunClaim:
    """The claim of this run, as `self.claim` in a task.

    Attributes:
        key: what is claimed; "" where the task was called as a function.
        fence: grows with each run that takes the claim. For writes of the task's own that must not come from
            a run that was frozen meanwhile, as in `UPDATE ... WHERE fence <= %s`. 0 without a claim.
    """

    def __init__(self, key: str = "", *, lease: Lease | None = None, is_missing: bool = False) -> None:
        self.key = key
        self.fence = 0 if lease is None else lease.fence
        self._lease = lease
        self._is_missing = is_missing
        # Another task has been published in place of this run's, which ends as if it were ignored.
        self.is_replaced = False

    @property
    def is_held(self) -> bool:
        """Whether no other run can have the claim now. False where the state store was away at the start."""
        return not self._is_missing if self._lease is None else not self._lease.is_lost

    def assert_held(self) -> None:
        """Go on only if no other run can have taken the claim: before a step that cannot be taken back.

        Asks nobody: it compares times, and knows of a renewal that found another owner. A process that is
        frozen between this and the step is not stopped by it; `fence` stops its writes. Says nothing where
        the task runs without a claim because it is declared so (`on_state_loss="run"`).

        Raises:
            ClaimLostError: the lease has ended, or the claim is another run's. The retry policy decides.
        """
        if self._lease is not None and self._lease.is_lost:
            raise ClaimLostError(
                f"The claim {self.key!r} may belong to another run by now: its lease was not renewed for "
                f"{self._lease.seconds:g} s, or somebody has released it. Nothing after this point was done."
            )


@dataclass(frozen=True, slots=True)
class Settlement:
    """How a run that has ended tells the store.

    Args:
        store: where the claim is.
        key, owner, holder: of the claim.
        lease_seconds: for how long the store may be away before the run is given up as not recorded.
        remember_seconds: how long the key is done.
        result_limit_bytes: a longer result is not kept.
        clock, pause: the time.
    """

    store: StateStore
    key: str
    owner: str
    holder: dict[str, Any]
    lease_seconds: float
    remember_seconds: float
    result_limit_bytes: int
    clock: Clock = SYSTEM_CLOCK
    pause: Callable[[float], None] = time.sleep

    def complete(self, result: Any, *, patience_seconds: float) -> Claim | None:
        """Record that the effect has happened, with the result for duplicates. Never raises: it has happened.

        Args:
            patience_seconds: how long to go on while the store is away.

        Returns:
            the claim of another run that has taken the key meanwhile; None where all is well.
        """
        kept = self._kept(result)
        give_up_at = self.clock.monotonic() + patience_seconds
        while True:
            is_last = self.clock.monotonic() >= give_up_at
            try:
                return self._record(kept)
            except StateUnavailableError as error:
                if is_last:
                    log.error(  # noqa: TRY400 - its text says all
                        "effect done but not recorded, a duplicate would have it again",
                        key=self.key,
                        error=str(error),
                    )
                    return None
            self.pause(PAUSE_SECONDS)

    def release(self) -> None:
        """Free the claim for the next run. Never raises: a lease that stays ends by itself."""
        try:
            self.store.release(self.key, owner=self.owner)
        except StateUnavailableError as error:
            log.warning(
                "claim not released, the next run waits for the end of its lease",
                key=self.key,
                lease_seconds=self.lease_seconds,
                error=str(error),
            )

    def _record(self, kept: str) -> Claim | None:
        """Mark the claim as done. Return None if it is, else the claim of the run that has it."""
        if self._mark_done(kept):
            return None
        # The store has lost it, or freed it when its lease had ended. If nobody has it, it is ours again.
        attempt = self.store.acquire(
            self.key, owner=self.owner, holder=self.holder, lease_seconds=self.lease_seconds
        )
        if attempt.is_granted and self._mark_done(kept):
            return None
        return attempt.claim

    def _mark_done(self, kept: str) -> bool:
        return self.store.complete(
            self.key, owner=self.owner, result=kept, remember_seconds=self.remember_seconds
        )

    def _kept(self, result: Any) -> str:
        """Return the result as it is kept: as JSON text, which every store takes, whatever is in it."""
        try:
            text = dumps(result)
        except Exception as error:
            # If results are on, storing it fails too, and the run with it. The effect has happened.
            log.warning(
                "result not kept for duplicates: it is not JSON", key=self.key, error=type(error).__name__
            )
            return "null"
        if len(text) > self.result_limit_bytes:
            log.warning("result not kept for duplicates: it is too large", key=self.key, bytes=len(text))
            return "null"
        return text


def first_result(claim: Claim) -> Any:
    """Return what the run returned that has completed the claim; None where it was not kept."""
    return loads(claim.result) if isinstance(claim.result, str) else claim.result
