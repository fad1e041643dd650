"""Where a message is: for a person who asks about one task, never on the way of a task."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from kombu.utils.encoding import bytes_to_str

from taskyard.transport.fetcher import queue_of_key
from taskyard.transport.keys import (
    SEPARATOR,
    LeaseKeys,
    delayed_key,
    key_for_step,
    keys_by_urgency,
    step_for_priority,
)
from taskyard.transport.scripts import script

# Messages a call: the server does nothing else meanwhile.
CHUNK = 1000
# Messages in all: a full queue is not read to its end.
LOOK_AT_MOST = 50_000


@dataclass(frozen=True, slots=True)
class Place:
    """Where the message of a task is.

    Args:
        queue: its queue.
        where: "waiting" in a list, "delayed" until it is due, "held" by a worker.
        headers: of the message.
        holder: lease id of that worker; "" where none holds it.
        entry: the message as it lies there.
    """

    queue: str
    where: Literal["waiting", "delayed", "held"]
    headers: dict[str, Any]
    holder: str = ""
    entry: bytes = field(default=b"", repr=False)


def find(
    client: Any, queues: Iterable[str], task_id: str, *, prefix: str = "", look_at_most: int = LOOK_AT_MOST
) -> Place | None:
    """Return where the message of a task is; None if it is not among the first messages.

    In the order in which a message goes its way, so that one on the move is met.

    Args:
        client: its keys are not prefixed.
        look_at_most: so many messages that wait or are delayed, of all queues together.
    """
    budget = look_at_most
    for queue in queues:
        keys = [(delayed_key(queue), True), *((key, False) for key in keys_by_urgency(queue))]
        for key, is_delayed in keys:
            entries, looked_at = _look(client, prefix + key, task_id, budget)
            budget -= looked_at
            for entry in entries:
                headers = _headers_of(entry.partition(b"\n")[2] if is_delayed else entry, task_id)
                if headers is not None:
                    return Place(queue, "delayed" if is_delayed else "waiting", headers, entry=entry)
    return _find_held(client, task_id, prefix)


def is_still_held(client: Any, place: Place, *, prefix: str = "") -> bool:
    """Return whether the worker still holds a message that was found with it."""
    entries = script("find").run(
        client, [LeaseKeys(prefix).messages(place.holder)], [place.headers["id"], 0, 0]
    )[1:]
    return any(_headers_of(entry.partition(b"\n")[2], place.headers["id"]) for entry in entries)


def bring_forward(client: Any, place: Place, *, prefix: str = "") -> bool:
    """Have a delayed message fetched now, before it is due; return False if it is not there any more."""
    priority, _, raw = place.entry.partition(b"\n")
    envelope = json.loads(raw)
    envelope["headers"]["eta"] = None
    keys = [
        prefix + delayed_key(place.queue),
        prefix + key_for_step(place.queue, step_for_priority(int(priority))),
    ]
    return bool(script("bring_forward").run(client, keys, [place.entry, json.dumps(envelope)]))


def _look(client: Any, key: str, text: str, budget: int) -> tuple[list[bytes], int]:
    """Return the entries of a key that hold the text, and how many were looked at."""
    found: list[bytes] = []
    begin = 0
    while begin < budget:
        wanted = min(CHUNK, budget - begin)
        looked_at, *entries = script("find").run(client, [key], [text, begin, wanted])
        found += entries
        begin += looked_at
        if looked_at < wanted:
            break
    return found, begin


def _find_held(client: Any, task_id: str, prefix: str) -> Place | None:
    keys = LeaseKeys(prefix)
    for lease_id in map(bytes_to_str, client.zrange(keys.leases, 0, -1)):
        _, *entries = script("find").run(client, [keys.messages(lease_id)], [task_id, 0, 0])
        for entry in entries:
            key, _, message = entry.partition(b"\n")
            if (headers := _headers_of(message, task_id)) is not None:
                return Place(
                    queue_of_key(key, prefix, SEPARATOR), "held", headers, holder=lease_id, entry=message
                )
    return None


def _headers_of(message: bytes, task_id: str) -> dict[str, Any] | None:
    """Return the headers if the message is that of the task, and does not only mention it."""
    try:
        headers = json.loads(message)["headers"]
        return headers if headers["id"] == task_id else None
    except (ValueError, TypeError, KeyError):
        return None
