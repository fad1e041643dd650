"""Questions about queues, and what an operator does to them: pause, resume, purge.

Everything works for the whole fleet at once and survives restarts, because it is on the broker. The functions
take a client whose keys are not prefixed, and the prefix.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from kombu.utils.encoding import bytes_to_str

from taskyard.clock import SYSTEM_CLOCK, Clock
from taskyard.transport.fetcher import queue_of_key
from taskyard.transport.keys import (
    SEPARATOR,
    LeaseKeys,
    dead_key,
    delayed_key,
    keys_by_urgency,
    keys_of_queue,
)
from taskyard.transport.scripts import script
from taskyard.transport.undecodable import SUFFIX as UNDECODABLE_SUFFIX


@dataclass(frozen=True, slots=True)
class Pause:
    """Who paused a queue, when (UTC, ISO 8601), and why."""

    who: str
    when: str
    why: str


@dataclass(frozen=True, slots=True)
class QueueState:
    """One look at a queue.

    Args:
        waiting: messages in its lists, all priorities together.
        delayed: messages that are not yet due.
        leased: messages that workers hold, running or reserved.
        dead: messages lost with their worker too often, on their way to the dead letters.
        undecodable: messages set aside because they can't be read.
        oldest_age_seconds: age of the oldest waiting message, 0 when none waits, None when its producer left
            no time.
        consumers: worker processes that consume it, by their leases.
        fetched: messages fetched since the broker's beginning.
        pause: why nothing is fetched, or None.
    """

    name: str
    waiting: int
    delayed: int
    leased: int
    dead: int
    undecodable: int
    oldest_age_seconds: float | None
    consumers: int
    fetched: int
    pause: Pause | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def pause(
    client: Any, queue: str, *, who: str, why: str, prefix: str = "", clock: Clock = SYSTEM_CLOCK
) -> Pause:
    """Stop the whole fleet from fetching from the queue. What is running goes on; publishing goes on."""
    entry = Pause(who=who, when=clock.now().isoformat(timespec="seconds"), why=why)
    client.hset(LeaseKeys(prefix).paused, queue, json.dumps(asdict(entry)))
    return entry


def resume(client: Any, queue: str, *, prefix: str = "") -> bool:
    """Let the fleet fetch again, at once; return False if the queue was not paused."""
    return bool(client.hdel(LeaseKeys(prefix).paused, queue))


def paused(client: Any, *, prefix: str = "") -> dict[str, Pause]:
    """Return the paused queues."""
    return {
        bytes_to_str(queue): Pause(**json.loads(entry))
        for queue, entry in client.hgetall(LeaseKeys(prefix).paused).items()
    }


def depth(client: Any, queue: str, *, prefix: str = "") -> int:
    """Return how many messages wait, all priorities together."""
    with client.pipeline(transaction=False) as pipe:
        for key in keys_by_urgency(queue):
            pipe.llen(prefix + key)
        return sum(pipe.execute())


def delayed(client: Any, queue: str, *, prefix: str = "") -> int:
    """Return how many messages are not yet due."""
    return int(client.zcard(prefix + delayed_key(queue)))


def leased(client: Any, *, prefix: str = "") -> dict[str, int]:
    """Return by queue how many messages workers hold.

    Reads every lease: for a person, or every few seconds.
    """
    keys = LeaseKeys(prefix)
    messages = [keys.messages(bytes_to_str(lease_id)) for lease_id in client.zrange(keys.leases, 0, -1)]
    counts: dict[str, int] = {}
    listed = script("leased").run(client, messages, [])
    for place in range(0, len(listed), 2):
        queue = queue_of_key(listed[place], prefix, SEPARATOR)
        counts[queue] = counts.get(queue, 0) + int(listed[place + 1])
    return counts


def consumers(client: Any, *, prefix: str = "") -> dict[str, int]:
    """Return by queue how many worker processes consume it."""
    counts: dict[str, int] = {}
    for holder in client.hvals(LeaseKeys(prefix).holders):
        for queue in json.loads(holder).get("queues", ()):
            counts[queue] = counts.get(queue, 0) + 1
    return counts


def oldest_age_seconds(
    client: Any, queue: str, *, prefix: str = "", clock: Clock = SYSTEM_CLOCK
) -> float | None:
    """Return the age of the oldest waiting message; 0 when none waits, None when no producer left a time."""
    with client.pipeline(transaction=False) as pipe:
        for key in keys_by_urgency(queue):
            pipe.lindex(prefix + key, -1)
        heads = [head for head in pipe.execute() if head is not None]
    if not heads:
        return 0.0
    times = [published for head in heads if (published := _available_since(head)) is not None]
    if not times:
        return None
    return max(0.0, clock.now().timestamp() - min(times))


def _available_since(raw: bytes) -> float | None:
    """When the message could first have been run: published, or due if that is later. Epoch seconds."""
    try:
        headers = json.loads(raw)["headers"]
        published = headers.get("published_at")
        eta = headers.get("eta")
        if published is None:
            return None
        if not eta:
            return float(published)
        due = datetime.fromisoformat(eta)
        return max(float(published), (due if due.tzinfo else due.replace(tzinfo=UTC)).timestamp())
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def purge(client: Any, queue: str, *, prefix: str = "", include_delayed: bool = True) -> int:
    """Delete the waiting messages, and by default the delayed ones; return how many.

    What workers hold is not touched.
    """
    with client.pipeline() as pipe:
        for key in keys_by_urgency(queue):
            pipe.llen(prefix + key)
            pipe.delete(prefix + key)
        if include_delayed:
            pipe.zcard(prefix + delayed_key(queue))
            pipe.delete(prefix + delayed_key(queue))
        return sum(pipe.execute()[::2])


def promote_due(client: Any, queue: str, *, prefix: str = "") -> int:
    """Move messages that are due into their lists although no worker fetches; return how many wait then.

    For a fleet that is scaled to zero: an autoscaler sees only the lists. Call it from the exporter.
    """
    script("promote").run(client, [prefix + key for key in keys_of_queue(queue)], [])
    return depth(client, queue, prefix=prefix)


def overview(
    client: Any, queues: Iterable[str], *, prefix: str = "", clock: Clock = SYSTEM_CLOCK
) -> list[QueueState]:
    """Return one look at each queue."""
    pauses, held = paused(client, prefix=prefix), leased(client, prefix=prefix)
    consuming = consumers(client, prefix=prefix)
    fetched = {bytes_to_str(k): int(v) for k, v in client.hgetall(LeaseKeys(prefix).fetched).items()}
    return [
        QueueState(
            name=queue,
            waiting=depth(client, queue, prefix=prefix),
            delayed=delayed(client, queue, prefix=prefix),
            leased=held.get(queue, 0),
            dead=int(client.llen(prefix + dead_key(queue))),
            undecodable=int(client.llen(prefix + queue + UNDECODABLE_SUFFIX)),
            oldest_age_seconds=oldest_age_seconds(client, queue, prefix=prefix, clock=clock),
            consumers=consuming.get(queue, 0),
            fetched=fetched.get(queue, 0),
            pause=pauses.get(queue),
        )
        for queue in queues
    ]
