"""What happened in the runs of a task so far: carried in its message until it ends for good.

Every run that ended in a retry, or with the death of its process, is one attempt: an object with

    number      1 for the first run; they are counted over retries and lost processes
    at          when it ended, in UTC epoch seconds
    worker      host name of the worker
    error       type and text of the error
    traceback   its end and its beginning, "" where there was none (the process was killed)
    left_out    only where attempts before this one were dropped to keep the message small: how many

The first two and the last eight are kept. They travel as one compressed header, since ten thousand messages
that wait for a partner to come back must not fill the broker. A run that nobody saw end (the machine went
down, and the message came back by itself) is not among them; the delivery count of the broker knows of it.
"""

from __future__ import annotations

import base64
import json
import traceback as traceback_module
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from taskyard.clock import SYSTEM_CLOCK, Clock
from taskyard.marked_values import Scrubber, active_scrubber
from taskyard.tasks.plain_values import plain_text
from taskyard.tasks.traceback import described, task_traceback

HEADER = "attempts"
FIRST_KEPT, LAST_KEPT = 2, 8
ERROR_CHARACTERS = 500
# The beginning says where the task was, the end what went wrong.
TRACEBACK_START, TRACEBACK_END = 1000, 2000
# A header that unpacks to more is not ours.
MAX_BYTES = 512 * 1024

Attempt = dict[str, Any]


def earlier_attempts(headers: Mapping[str, Any] | None) -> list[Attempt]:
    """Return the attempts that a message carries; none where its header is missing or not ours."""
    packed = (headers or {}).get(HEADER)
    if not isinstance(packed, str):
        return []
    try:
        unpacker = zlib.decompressobj()
        attempts = json.loads(unpacker.decompress(base64.b64decode(packed, validate=True), MAX_BYTES))
    except (ValueError, zlib.error):
        return []
    is_ours = isinstance(attempts, list) and all(
        isinstance(attempt, dict) and isinstance(attempt.get("number"), int) for attempt in attempts
    )
    return attempts if is_ours else []


def with_attempt(
    attempts: list[Attempt],
    error: BaseException | None,
    *,
    worker: str | None,
    scrubber: Scrubber | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> list[Attempt]:
    """Return the attempts and one more, without those that are too many.

    Args:
        error: how it ended; None where the task asked for its retry without one.
        worker: host name.
        scrubber: hides what the task has marked.
    """
    scrub = (lambda text: text) if scrubber is None else scrubber.text
    text = "retried by the task" if error is None else described(error)
    added: Attempt = {
        "number": attempts[-1]["number"] + 1 if attempts else 1,
        "at": clock.now().timestamp(),
        "worker": worker or "",
        "error": plain_text(scrub(text))[:ERROR_CHARACTERS],
        "traceback": "" if error is None else _trimmed(plain_text(scrub(_traceback(error)))),
    }
    kept = [*attempts, added]
    while len(kept) > FIRST_KEPT + LAST_KEPT:
        dropped = kept.pop(FIRST_KEPT)
        following = kept[FIRST_KEPT]
        left_out = dropped.get("left_out", 0) + 1 + following.get("left_out", 0)
        kept[FIRST_KEPT] = {**following, "left_out": left_out}
    return kept


@contextmanager
def noted(request: Any, error: BaseException | None, scrubber: Scrubber | None = None) -> Iterator[None]:
    """Have what is published inside, from this request, carry this run as an attempt.

    After the block the request is as before: a run that could not be published again is one attempt, not two.
    """
    before = request.headers
    attempts = with_attempt(
        earlier_attempts(before), error, worker=request.hostname, scrubber=scrubber or active_scrubber()
    )
    request.headers = {**(before or {}), HEADER: pack(attempts)}
    try:
        yield
    finally:
        request.headers = before


def pack(attempts: list[Attempt]) -> str:
    """Return the attempts as the text of a header."""
    return base64.b64encode(zlib.compress(json.dumps(attempts).encode(), 6)).decode()


def _traceback(error: BaseException) -> str:
    if error.__traceback__ is None:
        return ""
    return "".join(traceback_module.format_exception(type(error), error, task_traceback(error)))


def _trimmed(text: str) -> str:
    if len(text) <= TRACEBACK_START + TRACEBACK_END:
        return text
    left_out = len(text) - TRACEBACK_START - TRACEBACK_END
    return f"{text[:TRACEBACK_START]}\n... ({left_out:,} characters) ...\n{text[-TRACEBACK_END:]}"
