"""Messages that are not yet due: kept by the server in a sorted set per queue, never in a worker.

The score is the due time in microseconds since the epoch, the member "<priority>\\n<message>". Any fetch on
the queue moves what is due by the server's clock.
"""

from __future__ import annotations

from queue import Empty
from typing import Any

from taskyard.transport.envelope import decode_envelope, due_in_microseconds
from taskyard.transport.keys import delayed_key, priority_of_step
from taskyard.transport.process_leases import LOST, fetch_arguments
from taskyard.transport.scripts import script
from taskyard.transport.undecodable import UndecodableMessageError, park


def member(channel: Any, envelope: dict[str, Any], raw: bytes) -> bytes:
    """Return the message as a member of the delayed set."""
    priority = priority_of_step(channel._get_message_priority(envelope))
    return b"%d\n%b" % (priority, raw)


def move_to_delayed(channel: Any, messages: list[tuple[int, str, int, bytes]]) -> None:
    """Move fetched messages (tag, queue, due, member) out of the lease.

    A stock producer had put them in a list.
    """
    prefix, lease = channel.global_keyprefix, channel.lease
    keys = [channel.lease_keys.messages(lease.id)]
    arguments: list[Any] = []
    for tag, queue, due, entry in messages:
        keys.append(prefix + delayed_key(queue))
        arguments += [tag, due, entry]
    try:
        script("delay").run(channel.plain_client, keys, arguments)
    except channel.connection_errors:
        # Still leased: they are found again with the next connection.
        lease.forget([tag for tag, *_ in messages])
        raise
    lease.forget([tag for tag, *_ in messages])


def purge(channel: Any, queue: str) -> int:
    """Delete the queue's delayed messages; return how many."""
    with channel.conn_or_acquire() as client, client.pipeline() as pipe:
        key = delayed_key(queue)
        pipe.execute_command("ZREMRANGEBYRANK", channel.global_keyprefix + key, 0, -1)
        return int(pipe.execute()[0])


def get_one(channel: Any, queue: str) -> dict[str, Any]:
    """Fetch one message now; see Kombu's basic_get.

    Raises:
        Empty: there is none.
    """
    try:
        return _lease_one(channel, queue)
    finally:
        # A queue with x-expires lives on with each look into it, as with Kombu.
        with channel.conn_or_acquire() as client:
            channel._maybe_update_queues_expire(client, queue)


def _lease_one(channel: Any, queue: str) -> dict[str, Any]:
    lease = channel.lease
    while True:
        acks = lease.take_acks()
        arguments = fetch_arguments(
            channel.lease_keys,
            lease.id,
            channel.leases.ttl_microseconds,
            wanted=1,
            first_tag=lease.next_tag,
            queues=[channel.queue_keys(queue)],
            leased=1,
            acks=acks,
        )
        try:
            answer = script("fetch").run(channel.plain_client, [], arguments)
        except channel.connection_errors:
            lease.unsent_acks(acks)
            raise
        if answer == LOST:
            channel.lose_lease()
            channel.take_up_lease(channel.plain_client.execute_command)
            continue
        channel.leases.renewed(lease)
        if len(answer) == 2:
            raise Empty
        tag, raw = lease.next_tag, answer[3]
        lease.receive(queue, raw, is_leased=True)
        lease.inbox.pop()
        try:
            envelope = decode_envelope(raw)
        except UndecodableMessageError as error:
            with channel.conn_or_acquire() as client:
                park(client, queue=queue, raw=raw, error=error)
            lease.ack(tag)
            continue
        due = due_in_microseconds(envelope)
        if due is None:
            envelope["properties"]["delivery_tag"] = tag
            return envelope
        move_to_delayed(channel, [(tag, queue, due, member(channel, envelope, raw))])
