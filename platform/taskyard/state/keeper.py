"""One background thread a process that renews the leases of its held claims.

    with held(store, attempt.claim, lease_seconds=10) as lease:
        ...  # lease.is_lost, lease.fence
    store.complete(...)  # after the block: a claim that is done needs no renewal

The thread renews as long as the process lives, also while a task hangs: time limits end a hanging task, and
then the lease runs out. It is started at the first lease, again in a forked child, and never keeps a process
from ending.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

import structlog

from taskyard.clock import SYSTEM_CLOCK, Clock
from taskyard.state.interface import Claim, StateStore
from taskyard.state.leases import HeldLeases, Lease

__all__ = ["Lease", "LeaseKeeper", "held", "lease_keeper"]

log = structlog.stdlib.get_logger("taskyard.state")

# How long the thread rests without any lease before it ends.
IDLE_SECONDS = 30.0


class LeaseKeeper:
    """Keeps the leases of one process.

    Args:
        clock: what leases are measured with.
        idle_seconds: how long the thread rests without any lease before it ends.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self._leases = HeldLeases(clock)
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._pid = os.getpid()
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        # Until when the thread rests, by the monotonic clock.
        self._rests_until = 0.0

    @property
    def is_running(self) -> bool:
        """Whether the thread is there; without a lease it ends after a while."""
        return self._thread is not None

    @contextmanager
    def held(self, store: StateStore, claim: Claim, *, lease_seconds: float) -> Iterator[Lease]:
        """Renew a claim that was just granted until the block ends. The block itself says what becomes of it.

        Args:
            store: where it is.
            claim: the one of a granted `Attempt`.
            lease_seconds: as for `acquire`.

        The lease is renewed after each third of its length. That the claim is lost is known after a third,
        and at once in a process that stood still for longer than the lease; nothing interrupts the block.
        What must not happen twice compares `lease.fence`.
        """
        lease = self._add(store, claim, lease_seconds)
        try:
            yield lease
        finally:
            lease.end()
            self._discard(lease)

    def _add(self, store: StateStore, claim: Claim, seconds: float) -> Lease:
        with self._wake:
            lease = self._leases.add(store, claim, seconds)
            if self._thread is None:
                self._start()
            elif lease.renew_at < self._rests_until:
                self._wake.notify()
        return lease

    def _discard(self, lease: Lease) -> None:
        if os.getpid() != self._pid:
            # A task's own fork leaves the block too; the lock may have been taken when it was made.
            return
        with self._wake:
            self._leases.discard(lease)

    def _start(self) -> None:
        thread = threading.Thread(target=self._keep, name="taskyard-leases", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            # The interpreter is ending; the lease runs out.
            log.warning("leases are not renewed", error=str(error))
            return
        self._thread = thread

    def _keep(self) -> None:
        used: dict[int, StateStore] = {}
        try:
            while self._has_rested():
                self._renew_due(used)
        finally:
            with self._wake:
                # Ended by an error, it is started again by the next lease.
                if self._thread is threading.current_thread():
                    self._thread = None
            _close(used)

    def _renew_due(self, used: dict[int, StateStore]) -> None:
        with self._wake:
            due = self._leases.due()
        used.update((id(lease.store), lease.store) for lease in due)
        self._leases.renew(due)
        # From here on nothing in this thread may keep a lease alive.
        del due
        with self._wake:
            is_idle = self._leases.next_at() is None
        if is_idle:
            _close(used)

    def _has_rested(self) -> bool:
        """Wait until a lease may be due. Return False if the thread has rested for long enough to end."""
        with self._wake:
            next_at = self._leases.next_at()
            if next_at is None:
                self._rests_until = math.inf
                if not self._wake.wait(self._idle_seconds) and self._leases.next_at() is None:
                    # Under the same lock: a lease that comes now starts another thread.
                    self._thread = None
                    return False
                return True
            self._rests_until = next_at
            self._wake.wait(max(0.0, next_at - self._clock.monotonic()))
            return True


def _close(stores: dict[int, StateStore]) -> None:
    for store in stores.values():
        with suppress(Exception):
            store.close_thread()
    stores.clear()


_keeper: LeaseKeeper | None = None
_pid = 0


def lease_keeper() -> LeaseKeeper:
    """Return the keeper of this process; a forked child has its own, and none of its parent's leases."""
    global _keeper, _pid
    if _keeper is None or _pid != os.getpid():
        _keeper, _pid = LeaseKeeper(), os.getpid()
    return _keeper


def held(store: StateStore, claim: Claim, *, lease_seconds: float) -> AbstractContextManager[Lease]:
    """Renew a claim of this process until the block ends; see `LeaseKeeper.held`."""
    return lease_keeper().held(store, claim, lease_seconds=lease_seconds)
