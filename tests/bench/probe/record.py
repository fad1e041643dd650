"""What a run leaves behind where no fault touches it: on a second server, and in a file.

Times are of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import os
import time
from functools import lru_cache
from typing import Any

import redis

EFFECTS_URL = "BENCH_EFFECTS_URL"
WORKER = "BENCH_WORKER"
RECEIVED_FILE = "BENCH_RECEIVED_FILE"
WITHOUT_EVENTS = "BENCH_WITHOUT_EVENTS"

STARTS_KEY = "starts"
COUNTS_KEY = "counts"
EFFECTS_KEY = "effects"


@lru_cache(maxsize=1)
def _client(pid: int) -> redis.Redis:
    return redis.Redis.from_url(os.environ[EFFECTS_URL])


def record_start(number: int) -> None:
    """Count a run of the task with this number, and keep when, where and in which process it started."""
    started = f"{number} {time.monotonic():.6f} {os.environ.get(WORKER, '-')} {os.getpid()}"
    with _client(os.getpid()).pipeline(transaction=True) as pipe:
        pipe.hincrby(COUNTS_KEY, str(number), 1)
        pipe.rpush(STARTS_KEY, started)
        pipe.execute()


def record_effect_once(number: int) -> bool:
    """Apply the effect of an idempotent task; return whether it was not applied before."""
    return bool(_client(os.getpid()).hsetnx(EFFECTS_KEY, str(number), time.monotonic()))


def keep_received(sender: Any = None, request: Any = None, **_: Any) -> None:
    """Receiver of Celery's `task_received`: which worker has taken which task, and when.

    One write to an append-only file is whole in the file also when the process dies right after it.
    """
    number = (request.args or [None])[0]
    line = f"{number} {time.monotonic():.6f}\n".encode()
    os.write(_received_file(os.getpid()), line)


@lru_cache(maxsize=1)
def _received_file(pid: int) -> int:
    return os.open(os.environ[RECEIVED_FILE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def _disable_events(sender: Any, **_: Any) -> None:
    sender.event_dispatcher.disable()


def connect() -> None:
    """Connect what the environment of this worker asks for."""
    from celery import signals

    if os.environ.get(RECEIVED_FILE):
        signals.task_received.connect(keep_received, weak=False, dispatch_uid="bench.received")
    if os.environ.get(WITHOUT_EVENTS):
        signals.worker_ready.connect(_disable_events, weak=False, dispatch_uid="bench.events")
