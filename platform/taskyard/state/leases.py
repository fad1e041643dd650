"""The leases that this process holds, and when each of them is to be renewed."""

from __future__ import annotations

import weakref

import structlog

from taskyard.clock import Clock
from taskyard.errors import StateUnavailableError
from taskyard.state.interface import Claim, StateStore

log = structlog.stdlib.get_logger("taskyard.state")

# Of the lease's length: when it is renewed, and when again after the store was away.
RENEW_SHARE = 1 / 3
RETRY_SHARE = 1 / 20


class Lease:
    """A held claim while it is being renewed.

    Attributes:
        key, owner, fence: those of the claim.
        seconds: how long it lasts without a renewal.
    """

    def __init__(self, store: StateStore, claim: Claim, seconds: float, clock: Clock) -> None:
        self.store = store
        self.key, self.owner, self.fence, self.seconds = claim.key, claim.owner, claim.fence, seconds
        self._clock = clock
        self._is_taken = False
        self._is_over = False
        self.confirm(clock.monotonic() if claim.asked_at is None else claim.asked_at)

    @property
    def is_lost(self) -> bool:
        """Whether the claim is somebody else's, or may be: no renewal has succeeded for as long as it lasts.

        In the second case it can turn out later that nobody has taken it.
        """
        return self._is_taken or self._clock.monotonic() - self._confirmed_at >= self.seconds

    @property
    def is_kept(self) -> bool:
        """Whether it is still to be renewed."""
        return not (self._is_taken or self._is_over)

    def confirm(self, asked_at: float) -> None:
        """The store has said that it is ours; it lasts from when it was asked, not from its answer."""
        self._confirmed_at = asked_at
        self.renew_at = asked_at + self.seconds * RENEW_SHARE

    def postpone(self, now: float) -> None:
        """The store was away: ask again soon, while the lease still stands."""
        self.renew_at = now + self.seconds * RETRY_SHARE

    def lose(self) -> None:
        """The store has said that it belongs to somebody else."""
        self._is_taken = True

    def end(self) -> None:
        """Its work has ended; what a renewal under way finds does not matter any more."""
        self._is_over = True


class HeldLeases:
    """All leases of a process.

    Not thread-safe by itself: the keeper's lock is around everything but `renew`.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        # Weak: a lease whose block was left in the middle of an exception from a signal ends with its frame,
        # and is not kept alive for ever.
        self._leases: weakref.WeakSet[Lease] = weakref.WeakSet()

    def add(self, store: StateStore, claim: Claim, seconds: float) -> Lease:
        lease = Lease(store, claim, seconds, self.clock)
        self._leases.add(lease)
        return lease

    def discard(self, lease: Lease) -> None:
        self._leases.discard(lease)

    def due(self) -> list[Lease]:
        """Return what is to be renewed now, the most urgent first."""
        now = self.clock.monotonic()
        return sorted(
            (lease for lease in self._leases if lease.is_kept and lease.renew_at <= now),
            key=lambda lease: lease.renew_at,
        )

    def next_at(self) -> float | None:
        """Return the monotonic time at which the next one is due; None without any."""
        return min((lease.renew_at for lease in self._leases if lease.is_kept), default=None)

    def renew(self, leases: list[Lease]) -> None:
        """Renew these in one pass; a store that does not answer is asked once, not once for each."""
        away: set[int] = set()
        for lease in leases:
            asked_at = self.clock.monotonic()
            if id(lease.store) in away:
                lease.postpone(asked_at)
                continue
            try:
                is_ours = lease.store.renew(lease.key, owner=lease.owner, lease_seconds=lease.seconds)
            except Exception as error:
                away.add(id(lease.store))
                lease.postpone(self.clock.monotonic())
                _log_failure(lease, error)
                continue
            if is_ours:
                lease.confirm(asked_at)
            elif lease.is_kept:
                lease.lose()
                log.warning("lease lost: somebody else has the claim", key=lease.key, fence=lease.fence)


def _log_failure(lease: Lease, error: Exception) -> None:
    if isinstance(error, StateUnavailableError):
        log.warning("lease not renewed, tried again", key=lease.key, is_lost=lease.is_lost, error=str(error))
    else:
        log.exception("lease not renewed, tried again", key=lease.key, is_lost=lease.is_lost)
