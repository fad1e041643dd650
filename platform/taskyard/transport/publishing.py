"""Publishing: into the queue's list, or into its delayed set, and once even if the answer is lost.

A publish whose connection is cut may have arrived. Kombu and the publish budget send it again; a mark that
stays on the server for a while tells that it is the same one. Only messages that Taskyard stamps have what
identifies them: the task id and the time of this publish, which are the same at each attempt and differ for a
retry of the task.
"""

from __future__ import annotations

from typing import Any

from kombu.utils.json import dumps

from taskyard.transport import delayed
from taskyard.transport.envelope import due_in_microseconds
from taskyard.transport.keys import delayed_key, published_key
from taskyard.transport.scripts import script

# Longer than any publish may be tried.
MARK_MILLISECONDS = 60_000


def put(channel: Any, queue: str, message: dict[str, Any], batch: Any) -> bool:
    """Publish the message; return False for what Kombu does as well.

    That is a message that is due, and that nothing identifies.
    """
    due = None if queue in channel._expires else due_in_microseconds(message)
    mark = published_key(queue, message) if batch is None and queue not in channel._expires else None
    if due is None and mark is None:
        return False
    raw = dumps(message).encode()
    if due is None:
        key, entry = channel._q_for_pri(queue, channel._get_message_priority(message)), raw
    else:
        # A queue that expires takes its messages with it; a delayed one would stay behind, so it waits there.
        key, entry = delayed_key(queue), delayed.member(channel, message, raw)
    if mark is not None:
        prefix = channel.global_keyprefix
        arguments = [MARK_MILLISECONDS, entry, *([due] if due is not None else [])]
        script("put").run(channel.plain_client, [prefix + mark, prefix + key], arguments)
    elif batch is not None:
        batch.add("zadd", key, {entry: due})
    else:
        with channel.conn_or_acquire() as client:
            client.zadd(key, {entry: due})
    return True
