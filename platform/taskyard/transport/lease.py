"""One lease: what a process holds on the broker, over all the connections that it has had.

A lease is not tied to a connection. Its id changes with each new connection (the epoch), so that nothing sent
over an old one can have an effect any more; its messages, their tags and the acknowledgements under way stay.
"""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Iterable
from uuid import uuid4

# Acknowledged tags that are remembered: a broker that lost its last second on a restart still lists them.
REMEMBERED_ACKS = 5000
UNLEASED = 0


class Lease:
    """The state of one lease. The event loop owns it; acknowledgements may come from any thread.

    Messages of consumers without acknowledgements pass through it with the tag `UNLEASED`.
    """

    def __init__(self) -> None:
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        self.epoch = 0
        # Ids under which the server may know it: the last one, and those of attempts whose answer never came.
        self.earlier_ids: list[str] = []
        self.next_tag = 1
        self.held: set[int] = set()
        # Fetched, and not yet handed to a consumer: tag, queue, message.
        self.inbox: deque[tuple[int, str, bytes]] = deque()
        self.returns: deque[tuple[int, bool]] = deque()
        self._acks: deque[int] = deque()
        self._acked: deque[int] = deque(maxlen=REMEMBERED_ACKS)
        # Monotonic times: last known to be ours, and last turn of the loop that owns it.
        self.renewed_at = self.beat_at = time.monotonic()
        # Set while the owner has no connection, and is trying to get one.
        self.is_adrift = False
        # Set while a consumer's callback runs, which in a solo pool is the task.
        self.delivering_since: float | None = None

    @property
    def id(self) -> str:
        """The id under which the server knows it since the last connection."""
        return f"{self.owner}:{self.epoch}"

    @property
    def is_empty(self) -> bool:
        """Whether nothing would be lost with it."""
        return not (self.held or self._acks or self.returns)

    def next_epoch(self) -> str:
        """Begin a new epoch, for a new connection, and return its id."""
        if self.epoch:
            self.earlier_ids.append(self.id)
        self.epoch += 1
        return self.id

    def receive(self, queue: str, message: bytes, *, is_leased: bool) -> None:
        """Take in a fetched message, in the order in which the server gave the tags."""
        if not is_leased:
            self.inbox.append((UNLEASED, queue, message))
            return
        self.held.add(self.next_tag)
        self.inbox.append((self.next_tag, queue, message))
        self.next_tag += 1

    def receive_again(self, tag: int, queue: str, message: bytes) -> None:
        """Take in a message whose first answer never arrived."""
        self.held.add(tag)
        self.inbox.append((tag, queue, message))

    def holds(self, tag: int) -> bool:
        return tag in self.held

    def ack(self, tag: int) -> bool:
        """Note the acknowledgement for the next call; False if the message is not ours any more."""
        try:
            self.held.remove(tag)
        except KeyError:
            return False
        self._acked.append(tag)
        self._acks.append(tag)
        return True

    def give_back(self, tag: int, *, to_front: bool) -> bool:
        """Note that the message goes back; False if it is not ours any more."""
        try:
            self.held.remove(tag)
        except KeyError:
            return False
        self.returns.append((tag, to_front))
        return True

    @property
    def has_acks(self) -> bool:
        return bool(self._acks)

    def take_acks(self, limit: int = 1000) -> list[int]:
        """Return acknowledgements to send; give them to `unsent_acks` if no answer comes."""
        taken: list[int] = []
        while len(taken) < limit:
            try:
                taken.append(self._acks.popleft())
            except IndexError:
                break
        return taken

    def unsent_acks(self, tags: Iterable[int]) -> None:
        """Take back acknowledgements whose call has failed; sending one twice does no harm."""
        self._acks.extendleft(tags)

    def resume(self, tags: Iterable[int]) -> tuple[list[int], list[int]]:
        """Compare with what the server lists under this lease after a new connection.

        Returns:
            the tags that it lists and nobody here has seen (a reply that never arrived), oldest first, and
            the tags that were held here and are gone (the lease had expired).
        """
        listed = set(tags)
        returning = {tag for tag, _ in self.returns}
        again = listed.intersection(self._acked)
        self._acks.extend(again.difference(self._acks))
        unseen = sorted(listed - self.held - again - returning)
        lost = sorted(self.held - listed)
        self.forget(lost)
        self.next_tag = max(self.next_tag, max(listed, default=0) + 1)
        return unseen, lost

    def forget(self, tags: Iterable[int]) -> None:
        """Drop messages that are not ours any more."""
        gone = set(tags)
        self.held -= gone
        self.inbox = deque(item for item in self.inbox if item[0] not in gone)

    def lose(self) -> list[int]:
        """The lease has expired and others have its messages.

        Drop everything, and return what that concerns.
        """
        lost = sorted(self.held.union(self._acks))
        self.forget(lost)
        self.returns.clear()
        self._acks.clear()
        return lost
