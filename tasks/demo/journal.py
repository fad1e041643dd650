"""The journal of one demonstration: what was sent and how each run ended, as workers and senders report it.

It lives in the state store for an hour, in one list a run. Each process appends to it; the demonstration
reads on from where it was.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Literal

import redis

from taskyard.conf import get_settings

PREFIX = "demo-"
LIFETIME_SECONDS = 3600
TIMEOUT_SECONDS = 5.0

Kind = Literal["sent", "succeeded", "retried", "snoozed", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One event. Durations are in seconds; `wait` is known for first attempts only."""

    kind: Kind
    task_id: str
    task: str
    queue: str
    wait: float | None = None
    run: float | None = None


def run_of(correlation_id: str | None) -> str | None:
    """Return the demonstration that a correlation id belongs to, or None."""
    if not correlation_id or not correlation_id.startswith(PREFIX):
        return None
    return correlation_id.removeprefix(PREFIX).partition("-")[0]


def correlation_id(run: str, number: int) -> str:
    """Return the correlation id of the `number`-th piece of work of a demonstration."""
    return f"{PREFIX}{run}-{number}"


def append(run: str, entry: Entry) -> None:
    """Add an event to the journal."""
    key = _key(run)
    with _client(os.getpid()).pipeline(transaction=False) as pipe:
        pipe.rpush(key, json.dumps(asdict(entry)))
        pipe.expire(key, LIFETIME_SECONDS)
        pipe.execute()


def read(run: str, start: int) -> list[Entry]:
    """Return the events from place `start` on."""
    return [Entry(**json.loads(text)) for text in _client(os.getpid()).lrange(_key(run), start, -1)]


def _key(run: str) -> str:
    return f"{get_settings().key_prefix}taskyard.demo.{run}"


@lru_cache(maxsize=1)
def _client(_pid: int) -> redis.Redis:
    """Return this process's client; the process id makes a forked child open its own."""
    return redis.Redis.from_url(
        get_settings().effective_state_url,
        socket_timeout=TIMEOUT_SECONDS,
        socket_connect_timeout=TIMEOUT_SECONDS,
    )
