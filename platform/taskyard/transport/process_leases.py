"""All leases of this process: who renews them, who takes them up after a cut, what ends them.

A channel borrows a lease. When its connection is cut, a worker's next channel borrows the same one, with
everything that is still running under it. Only a stop, or the death of the process, ends it.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from itertools import chain
from typing import Any

from redis.exceptions import RedisError

from taskyard.transport.cancels import CancelledTasks
from taskyard.transport.keys import STEPS_BY_URGENCY, LeaseKeys
from taskyard.transport.lease import Lease
from taskyard.transport.scripts import script

logger = logging.getLogger(__name__)

# A process that tries to get its connection back is not hung; for longer than this nobody believes it.
RECONNECT_PATIENCE_SECONDS = 900.0
LOST = -1
# Delayed messages of one queue that one fetch moves at most, so that a million due at once block nobody.
PROMOTE_LIMIT = 200
# Of the waiting workers with the same queues so many are told of a new message. More than one, because one of
# them may have died a moment ago.
WATCHERS = 3


class ProcessLeases:
    """The leases of this process on one broker.

    Args:
        keys: the broker's keys.
        ttl_seconds: how long a lease holds without being renewed.
        hang_seconds: how long an event loop may stand still before it is taken for hung.
        busy_seconds: how long a callback, or a program without an event loop, may take.
    """

    def __init__(
        self, keys: LeaseKeys, *, ttl_seconds: float, hang_seconds: float, busy_seconds: float
    ) -> None:
        self.keys = keys
        self.ttl_seconds = ttl_seconds
        self.hang_seconds = hang_seconds
        self.busy_seconds = busy_seconds
        # True where a consumer goes on, over its next connection, with what it has reserved: Taskyard's does,
        # Celery's own drops it, and then it has to go back.
        self.is_kept = False
        self.is_stopping = False
        self.is_abandoned = False
        self.has_event_loop = False
        # Called with a lease and the tags that it has lost.
        self.on_lost: Callable[[Lease, list[int]], None] | None = None
        # Set by a worker that runs tasks in its loop: whether one runs, within its time limit.
        self.runs_inline: Callable[[], bool] | None = None
        self._leases: list[Lease] = []
        self._adrift: list[Lease] = []
        self._lock = threading.Lock()
        # No lease is reaped before this monotonic time: see `renewed`.
        self.reap_not_before: float | None = None
        self._client: Any = None
        self.cancelled = CancelledTasks(keys, lambda: self._client)
        self._thread: threading.Thread | None = None
        self._wake_thread = threading.Event()

    @property
    def ttl_microseconds(self) -> int:
        return int(self.ttl_seconds * 1_000_000)

    def borrow(self, client: Any) -> Lease:
        """Return the lease that a lost connection has left, or a new one.

        Args:
            client: a connection of its own for the thread that renews.
        """
        with self._lock:
            before, self._client = self._client, client
            if before is not None:
                before.connection_pool.disconnect()
            lease = self._adrift.pop() if self._adrift else Lease()
            lease.is_adrift = False
            lease.beat_at = time.monotonic()
            if lease not in self._leases:
                self._leases.append(lease)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._renew_for_ever, name="taskyard-leases", daemon=True
                )
                self._thread.start()
            return lease

    def leave(self, lease: Lease) -> None:
        """Keep the lease for the next connection."""
        with self._lock:
            if lease in self._leases and lease not in self._adrift:
                lease.is_adrift = True
                lease.beat_at = time.monotonic()
                self._adrift.append(lease)

    def drop(self, lease: Lease) -> None:
        """Stop renewing the lease: it has been given back, or it may expire."""
        with self._lock:
            for leases in (self._leases, self._adrift):
                if lease in leases:
                    leases.remove(lease)
            if not self._leases:
                self._wake_thread.set()

    def release(self, lease: Lease, client: Any) -> int:
        """Settle the acknowledgements and give everything else back, in order; return how many went back.

        Raises:
            RedisError: the broker did not answer; the lease will expire.
        """
        self.drop(lease)
        acks = lease.take_acks()
        while len(acks) == 1000:
            self.settle(lease, client, acks)
            acks = lease.take_acks()
        # An answer that was never read may hold messages too: all that the server lists goes back.
        keys = [self.keys.leases, self.keys.holders, self.keys.messages(lease.id)]
        returned: int = script("give_back").run(client, keys, [lease.id, "RPUSH", 1, len(acks), *acks])
        lease.lose()
        return returned

    def settle(self, lease: Lease, client: Any, acks: list[int]) -> bool:
        """Renew the lease and send acknowledgements; return whether it is still ours."""
        arguments = fetch_arguments(self.keys, lease.id, self.ttl_microseconds, acks=acks)
        if script("fetch").run(client, [], arguments) == LOST:
            return False
        self.renewed(lease)
        return True

    def ask(self, *command: Any) -> Any:
        """Send a command out of turn, and return the answer."""
        return self._client.execute_command(*command)

    def renewed(self, lease: Lease) -> None:
        """Note that the broker has just said that the lease is ours.

        After a silence as long as half a lease the broker may have been away for all, so others get the time
        to renew theirs before anybody's is reaped.
        """
        now = time.monotonic()
        if lease.epoch > 1 and now - lease.renewed_at > self.ttl_seconds / 2:
            self.reap_not_before = now + self.ttl_seconds
        lease.renewed_at = now

    def may_renew(self, lease: Lease, now: float) -> bool:
        """Whether the lease's owner counts as healthy although its loop has not come around."""
        if self.runs_inline is not None and self.runs_inline():
            return True
        patience = self.hang_seconds
        if lease.is_adrift:
            patience = RECONNECT_PATIENCE_SECONDS
        elif self.is_stopping or not self.has_event_loop:
            patience = self.busy_seconds
        elif self.runs_inline is None and lease.delivering_since is not None:
            # Nobody says which kind of pool this is: in a solo pool the callback is the task.
            patience = self.busy_seconds
        return now - lease.beat_at < patience

    def _renew_for_ever(self) -> None:
        """The thread: renews what the loop has not renewed, while the loop counts as healthy."""
        pid, pause = os.getpid(), self.ttl_seconds / 3
        while os.getpid() == pid:
            self._wake_thread.wait(pause)
            with self._lock:
                self._wake_thread.clear()
                if not self._leases:
                    self._thread = None
                    return
                leases = list(self._leases)
            now = time.monotonic()
            for lease in leases:
                if now - lease.renewed_at > pause and lease.epoch and self.may_renew(lease, now):
                    self._renew(lease)

    def _renew(self, lease: Lease) -> None:
        acks, is_ours = lease.take_acks(), False
        for _ in range(2):
            try:
                is_ours = self.settle(lease, self._client, acks)
                break
            except (RedisError, OSError) as error:
                # Perhaps only this connection is cut. If not, the loop sees the same, and connects again.
                logger.debug("lease %s not renewed: %s", lease.id, error)
        if not is_ours:
            lease.unsent_acks(acks)

    def begin(self) -> None:
        """A worker starts: its next connection goes on with what the last one leaves."""
        self.is_kept, self.is_stopping, self.is_abandoned = True, False, False

    def begin_stop(self) -> None:
        """A worker stops: what it puts back now was not begun, and goes to the front."""
        self.is_stopping = True

    def end(self) -> None:
        """A worker has stopped: its channel gives everything back when it closes."""
        self.is_kept, self.is_stopping = False, True

    def abandon(self) -> None:
        """A worker ends of an error that one of its messages may have caused.

        They come back when their leases end, and that counts as a delivery which went wrong: given back, the
        one would end every worker after this, without a bound.
        """
        self.is_abandoned = self.is_kept = True

    def release_all(self) -> None:
        """Give back what this process still holds; for its end."""
        if self.is_abandoned:
            return
        for lease in tuple(self._leases):
            with contextlib.suppress(RedisError, OSError):
                if lease.epoch:
                    self.release(lease, self._client)


def fetch_arguments(
    keys: LeaseKeys,
    lease_id: str,
    ttl_microseconds: int,
    *,
    wanted: int = 0,
    first_tag: int = 0,
    idle_state: int = 0,
    group: str = "",
    watch_microseconds: int = 0,
    leased: int = 0,
    queues: Sequence[Sequence[str]] = (),
    acks: Sequence[int] = (),
) -> list[Any]:
    """Return the arguments of the fetch script; without `wanted` it only renews and settles.

    Args:
        group: names the workers that consume the same queues.
        queues: for each its name, its delayed messages and its lists.
    """
    return [
        keys.leases,
        keys.messages(lease_id),
        keys.paused,
        keys.fetched,
        keys.watching(group),
        keys.parked(group),
        keys.wake(""),
        lease_id,
        ttl_microseconds,
        wanted,
        first_tag,
        idle_state,
        PROMOTE_LIMIT,
        watch_microseconds,
        WATCHERS,
        leased,
        len(STEPS_BY_URGENCY),
        len(queues),
        len(acks),
        *acks,
        *chain.from_iterable(queues),
        keys.cancel_version,
    ]


_by_broker: dict[Hashable, ProcessLeases] = {}
_pid = 0


def process_leases(broker: Hashable, make: Callable[[], ProcessLeases]) -> ProcessLeases:
    """Return the leases of this process on a broker; a forked child starts with none."""
    global _pid
    if _pid != os.getpid():
        _by_broker.clear()
        _pid = os.getpid()
        atexit.register(_release_at_exit, _pid)
    if broker not in _by_broker:
        _by_broker[broker] = make()
    return _by_broker[broker]


def all_process_leases() -> tuple[ProcessLeases, ...]:
    """Return the leases of this process on all brokers."""
    return tuple(_by_broker.values()) if _pid == os.getpid() else ()


def _release_at_exit(pid: int) -> None:
    if pid == os.getpid():
        for leases in all_process_leases():
            leases.release_all()
