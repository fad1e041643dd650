"""Which tasks are not to start any more: kept on the broker, known by each worker before it starts a task.

Nothing is asked for a task that starts. Each fetch brings back a version number with the messages; a worker
that sees a new one reads what has been added before it hands the messages on. What it had reserved before, it
does not start on knowledge older than `FRESH_SECONDS`: then it asks first. So a cancellation holds at once
for what waits on the broker, and after `FRESH_SECONDS` for what waits in a worker.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from kombu.utils.encoding import bytes_to_str
from redis.exceptions import RedisError

from taskyard.transport.keys import LeaseKeys
from taskyard.transport.scripts import script

logger = logging.getLogger(__name__)

# A worker starts nothing that it had reserved on older knowledge than this.
FRESH_SECONDS = 1.0
# How long the answer of a worker is kept for the one who has cancelled.
ANSWER_SECONDS = 60
# Versions are times of the server; another one that takes over may be so much behind.
_SKEW_MICROSECONDS = 60 * 1_000_000

Ask = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class CancelNote:
    """Who has cancelled a task, why, and when (UTC, ISO 8601)."""

    by: str = ""
    reason: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class HolderAnswer:
    """What the worker that holds a cancelled task says: its name, and whether the task has been started."""

    worker: str
    is_running: bool


def cancel(
    client: Any, task_id: str, note: CancelNote, *, hold_seconds: float, prefix: str = ""
) -> CancelNote | None:
    """Note for the whole fleet that a task is not to start any more; return an earlier note, which stands.

    Args:
        hold_seconds: how long that is remembered; longer than the task can wait.
    """
    keys = LeaseKeys(prefix)
    names = [keys.cancelled, keys.cancel_notes, keys.cancel_version, keys.cancel_answer(task_id)]
    arguments = [task_id, json.dumps(asdict(note)), int(hold_seconds * 1_000_000)]
    return _note(script("cancel").run(client, names, arguments))


def note_of(client: Any, task_id: str, *, prefix: str = "") -> CancelNote | None:
    """Return why a task was cancelled, or None if it was not."""
    return _note(client.hget(LeaseKeys(prefix).cancel_notes, task_id))


def answer_of(client: Any, task_id: str, *, prefix: str = "") -> HolderAnswer | None:
    """Return what the worker that holds the task has said, or None if none has said anything yet."""
    raw = client.get(LeaseKeys(prefix).cancel_answer(task_id))
    return None if raw is None else HolderAnswer(**json.loads(raw))


def _note(raw: bytes | None) -> CancelNote | None:
    if raw is None:
        return None
    try:
        return CancelNote(**json.loads(raw))
    except (ValueError, TypeError):
        return CancelNote()


class CancelledTasks:
    """What this process knows of the cancelled tasks on one broker.

    Args:
        keys: the broker's keys.
        client: returns a client for questions out of turn, or None while there is none.
    """

    def __init__(self, keys: LeaseKeys, client: Callable[[], Any]) -> None:
        self.keys = keys
        # Called with a question to the broker after ids were added; set by a worker.
        self.on_new: Callable[[Ask], None] | None = None
        self._client = client
        self._ids: set[str] = set()
        self._version = 0
        self._known_at = float("-inf")

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._ids

    def start_over(self) -> None:
        """Read everything the next time: this may be another server, or one that has lost something."""
        self._version = 0

    def hear(self, version: bytes, *, asked_at: float) -> bool:
        """Take note of the version that the broker gave; return whether there is something to read.

        Args:
            asked_at: monotonic time at which the broker was asked for it.
        """
        if int(version or 0) != self._version:
            return True
        self._known_at = asked_at
        return False

    def read(self, ask: Ask) -> None:
        """Read what is new.

        Args:
            ask: sends a command to the broker and returns the answer.
        """
        asked_at = time.monotonic()
        version = int(ask("GET", self.keys.cancel_version) or 0)
        is_continued = 0 < self._version <= version
        begin = self._version - _SKEW_MICROSECONDS if is_continued else "-inf"
        ids = {bytes_to_str(name) for name in ask("ZRANGEBYSCORE", self.keys.cancelled, begin, "+inf")}
        has_new = not ids <= self._ids or (is_continued and version > self._version)
        self._ids = self._ids | ids if is_continued else ids
        self._version, self._known_at = version, asked_at
        if has_new and self.on_new is not None:
            try:
                self.on_new(ask)
            except Exception:
                # the messages that came with it must be handed on all the same
                logger.exception("What runs is not told of its cancellation.")

    def holds(self, task_id: str) -> bool:
        """Return whether the task was cancelled, as of `FRESH_SECONDS` ago at most.

        A broker that does not answer is not waited for: then what is known has to do.
        """
        if time.monotonic() - self._known_at > FRESH_SECONDS:
            self._refresh()
        return task_id in self._ids

    def note_of(self, task_id: str) -> CancelNote:
        """Return why a task was cancelled, as far as the broker says."""
        try:
            return note_of(self._client(), task_id, prefix=self.keys.prefix) or CancelNote()
        except (RedisError, OSError, AttributeError):
            return CancelNote()

    def answer(self, ask: Ask, holders: Iterable[tuple[str, HolderAnswer]]) -> None:
        """Tell those who have cancelled these tasks where they are."""
        for task_id, answer in holders:
            ask("SET", self.keys.cancel_answer(task_id), json.dumps(asdict(answer)), "EX", ANSWER_SECONDS)

    def _refresh(self) -> None:
        client = self._client()
        if client is None:
            return
        asked_at = time.monotonic()
        try:
            if self.hear(client.get(self.keys.cancel_version) or b"", asked_at=asked_at):
                self.read(client.execute_command)
        except (RedisError, OSError) as error:
            logger.warning(
                "The broker does not say which tasks are cancelled: %s. What is reserved starts.", error
            )
            # not once more for each task
            self._known_at = time.monotonic()
