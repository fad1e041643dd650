"""Bulk publish: many calls of one task, pipelined, with an exact account of what was sent on a failure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from celery.utils import uuid
from kombu.exceptions import OperationalError

from taskyard.errors import ArgumentError, BulkPublishError, PublishTimeoutError
from taskyard.tasks.publish import published_now
from taskyard.transport.deadline import deadline


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What a bulk call has sent."""

    task_ids: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.task_ids)


def enqueue_many(task: Any, calls: Iterable[Any], *, chunk_size: int, options: dict[str, Any]) -> BulkResult:
    """See `taskyard.Task.enqueue_many`. Each chunk has the publish budget of one message."""
    if chunk_size < 1:
        raise ArgumentError(f"enqueue_many has chunk_size={chunk_size}. It must be 1 or more.")
    app = task.app
    sent: list[str] = []
    remaining = iter(calls)
    while chunk := [(uuid(), *_arguments(call)) for call in islice(remaining, chunk_size)]:
        for _, args, kwargs in chunk:
            app.check_arguments(task.name, args, kwargs)
        _send_chunk(task, chunk, options, sent)
        sent += [task_id for task_id, _, _ in chunk]
    return BulkResult(tuple(sent))


def _arguments(call: Any) -> tuple[Sequence[Any], dict[str, Any]]:
    if isinstance(call, dict):
        return (), call
    if isinstance(call, tuple):
        if len(call) == 2 and isinstance(call[0], (tuple, list)) and isinstance(call[1], dict):
            return call
        return call, {}
    raise ArgumentError(
        f"enqueue_many was given a call that is a {type(call).__name__}: {call!r}. "
        "Give a tuple of arguments, a dict of keyword arguments, or a pair (args, kwargs)."
    )


def _send_chunk(
    task: Any, chunk: list[tuple[str, Any, Any]], options: dict[str, Any], sent: Sequence[str]
) -> None:
    app = task.app
    ids = [task_id for task_id, _, _ in chunk]
    try:
        with published_now(), deadline(app.publish_timeout_seconds), app.producer_or_acquire() as producer:
            for batch in _batch(producer, len(chunk)):
                for task_id, args, kwargs in chunk:
                    task.apply_async(args, kwargs, task_id=task_id, producer=batch, **options)
    except OperationalError as error:
        never_left = isinstance(error, PublishTimeoutError)
        raise BulkPublishError(
            str(error.__cause__ or error),
            sent=sent,
            unsent=ids if never_left else [],
            uncertain=[] if never_left else ids,
        ) from error


def _batch(producer: Any, size: int) -> Iterator[Any]:
    """Yield a producer that buffers, and send its buffer at the end; Kombu 5.7 pipelines it on Redis."""
    with producer.batch(size):
        yield producer
