"""A part of a chord that has failed for good, and is replayed: its chord takes it once more.

Celery counts a failed part like any other. When all parts are there and one has failed, it calls the error
callbacks of the body, and the chord is over; what the other parts have returned stays in the store until it
expires (RESULT_EXPIRES_SECONDS). So a chord can be taken up again:

    still counting   the failed part is taken out, and its replay counts in its place
    over, failed     all failed parts are taken out; once each of them has been replayed, the body runs
    over, done       nothing: the body has run

What the error callbacks have done stays done. A replayed part that fails again is counted as before.

Only results on Redis can do it. With others, the replayed part runs, and the body does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from celery import states
from celery.backends.redis import RedisBackend
from redis.exceptions import RedisError

from taskyard.errors import PublishError
from taskyard.masking import mask_url

# Keys: results, ids counted, size, added parts, claim.
# Arguments: "1" if results are ordered; seconds; number of own failed results; number of all failed ones;
# those results, own first; in the same order, the ids under which they are counted.
_REOPEN = """
local results, counted, size, added, claim = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local is_counting = redis.call('EXISTS', size) == 1
local claimed = redis.call('GET', claim)
if claimed == 'done' or (is_counting and claimed) or redis.call('EXISTS', results) == 0 then
    return 0
end
local is_ordered, seconds = ARGV[1] == '1', tonumber(ARGV[2])
local own, all = tonumber(ARGV[3]), tonumber(ARGV[4])
if not is_counting then
    local total = redis.call(is_ordered and 'ZCARD' or 'LLEN', results)
    redis.call('SET', size, total - tonumber(redis.call('GET', added) or 0))
    redis.call('DEL', claim)
end
for place = 5, 4 + (is_counting and own or all) do
    if is_ordered then
        redis.call('ZREM', results, ARGV[place])
    else
        redis.call('LREM', results, 1, ARGV[place])
    end
    redis.call('SREM', counted, ARGV[place + all])
end
if seconds > 0 then
    for _, key in ipairs({results, counted, size, added}) do
        redis.call('EXPIRE', key, seconds)
    end
end
return 1
"""


@dataclass(frozen=True, slots=True)
class _Part:
    """Under which id, and in which chord, a task counts."""

    task_id: str
    group_id: str


def reopen_chord(app: Any, options: Mapping[str, Any], *, task_id: str) -> bool:
    """Have the chord that a failed task was a part of wait for its replay.

    To be called before the replay is published. Calling it twice changes nothing more.

    Args:
        options: with which the replay is published; see `taskyard.tasks.canvas_parts.republish_options`.
        task_id: of the failed run.

    Returns:
        whether a chord waits now. False if the task is part of none, the body of its chord has run, the
        results of the chord have expired, or they are not on Redis.

    Raises:
        PublishError: the result store does not answer. Nothing was changed, and it can be called again.
    """
    backend = app.backend
    parts = list(_parts(options, task_id))
    if not parts or not isinstance(backend, RedisBackend):
        return False
    try:
        return True in [_reopen(backend, part) for part in parts]
    except RedisError as error:
        raise PublishError(
            f"The chord of task {task_id} does not wait for its replay: the result store does not answer "
            f"({mask_url(str(error)).rstrip('.')})."
        ) from error


def _parts(options: Mapping[str, Any], task_id: str) -> Iterator[_Part]:
    """Yield the task itself, or the last step of its chain, where that is what the chord counts."""
    if options.get("chord") and options.get("group_id"):
        yield _Part(task_id, options["group_id"])
    for step in options.get("chain") or ():
        given = step.get("options") or {}
        if given.get("chord") and given.get("group_id") and given.get("task_id"):
            yield _Part(given["task_id"], given["group_id"])


def _reopen(backend: Any, part: _Part) -> bool:
    client, is_ordered = backend.client, backend._chord_zset
    keys = [backend.get_key_for_group(part.group_id, end) for end in (".j", ".d", ".s", ".t", ".c")]
    results = client.zrange(keys[0], 0, -1) if is_ordered else client.lrange(keys[0], 0, -1)
    failed = [(raw, task_id) for raw in results for task_id in _failed_id(backend, raw)]
    own = [(raw, task_id) for raw, task_id in failed if task_id == part.task_id]
    others = [(raw, task_id) for raw, task_id in failed if task_id != part.task_id]
    counted = {_text(member).rpartition(":")[0]: member for member in client.smembers(keys[1])}
    taken_out = [*own, *others]
    arguments = [
        int(is_ordered),
        backend.chord_expires or 0,
        len(own),
        len(taken_out),
        *(raw for raw, _ in taken_out),
        *(counted.get(task_id, "") for _, task_id in taken_out),
    ]
    return bool(client.eval(_REOPEN, len(keys), *keys, *arguments))


def _failed_id(backend: Any, raw: bytes) -> Iterator[str]:
    _, task_id, state, _ = backend.decode(raw)
    if state in states.PROPAGATE_STATES:
        yield task_id


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
