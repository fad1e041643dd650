"""From the lease's inbox to the consumers, one message at a time.

What can't be delivered is put where it belongs.
"""

from __future__ import annotations

import time
from typing import Any

from taskyard.transport import delayed
from taskyard.transport.envelope import decode_envelope, due_in_microseconds
from taskyard.transport.lease import UNLEASED
from taskyard.transport.undecodable import UndecodableMessageError, park

# A consumer that runs its tasks itself returns to the loop this often, so that acknowledgements, signals and
# remote control don't wait for a whole batch.
TURN_SECONDS = 0.05


def deliver_inbox(channel: Any) -> int:
    """Hand out the fetched messages, for a while; return how many."""
    inbox = channel.lease.inbox
    if not inbox:
        return 0
    delivered = 0
    not_due: list[tuple[int, str, int, bytes]] = []
    started = time.monotonic()
    try:
        while inbox:
            delivered += _deliver_next(channel, inbox, not_due)
            if time.monotonic() - started > TURN_SECONDS:
                channel.connection.cycle.turn_again()
                break
    finally:
        if not_due:
            delayed.move_to_delayed(channel, not_due)
        if channel.lease.returns and not channel.active_queues:
            channel.give_back_now()
    return delivered


def _deliver_next(channel: Any, inbox: Any, not_due: list[tuple[int, str, int, bytes]]) -> int:
    tag, queue, raw = inbox[0]
    try:
        envelope = decode_envelope(raw)
    except UndecodableMessageError as error:
        with channel.conn_or_acquire() as client:
            park(client, queue=queue, raw=raw, error=error)
        inbox.popleft()
        channel.lease.ack(tag)
        return 0
    inbox.popleft()
    due = due_in_microseconds(envelope) if tag != UNLEASED else None
    if due is not None:
        not_due.append((tag, queue, due, delayed.member(channel, envelope, raw)))
        return 0
    if queue not in channel.connection._callbacks:
        # cancelled meanwhile
        if tag != UNLEASED:
            channel.lease.give_back(tag, to_front=True)
        return 0
    envelope["properties"]["delivery_tag"] = tag
    channel.lease.delivering_since = time.monotonic()
    try:
        channel.connection._deliver(envelope, queue)
    finally:
        channel.lease.delivering_since = None
        channel.lease.beat_at = time.monotonic()
    return 1
