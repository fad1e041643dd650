"""Bulk publish: many calls of one task, pipelined, with an exact account of what was sent on a failure."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from kombu.exceptions import BatchPublishError, OperationalError

from taskyard.errors import ArgumentError, BulkPublishError
from taskyard.masking import mask_url
from taskyard.tasks import direct_bulk
from taskyard.tasks.publish import after_commit, must_wait_for_commit, published_now
from taskyard.tasks.task_ids import new_task_id
from taskyard.tasks.unique import refuse_bulk
from taskyard.transport.deadline import deadline

# A push, and on queues that expire a prolongation: with room for both nothing is sent before the end.
COMMANDS_A_MESSAGE = 2
# (task id, positional arguments, keyword arguments)
Call = tuple[str, Sequence[Any], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What a bulk call has sent, or will send when the transaction commits."""

    task_ids: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.task_ids)


def enqueue_many(task: Any, calls: Iterable[Any], *, chunk_size: int, options: dict[str, Any]) -> BulkResult:
    """See `taskyard.Task.enqueue_many`. Each chunk has the publish budget of one message."""
    if chunk_size < 1:
        raise ArgumentError(f"enqueue_many has chunk_size={chunk_size}. It must be 1 or more.")
    refuse_bulk(task, options)
    options = dict(options)
    on_commit = options.pop("on_commit", task.on_commit)
    checked = _checked(task, calls)
    if not must_wait_for_commit(on_commit):
        return BulkResult(_send(task, checked, chunk_size, options))
    # as they are now: the caller may go on to change them
    waiting = copy.deepcopy(list(checked))
    after_commit(lambda: _send(task, iter(waiting), chunk_size, options))
    return BulkResult(tuple(task_id for task_id, _, _ in waiting))


def _checked(task: Any, calls: Iterable[Any]) -> Iterator[Call]:
    for call in calls:
        args, kwargs = _arguments(call)
        task.app.check_arguments(task.name, args, kwargs)
        yield new_task_id(), args, kwargs


def _arguments(call: Any) -> tuple[Sequence[Any], dict[str, Any]]:
    if isinstance(call, dict):
        return (), call
    if isinstance(call, tuple):
        if len(call) == 2 and isinstance(call[0], (tuple, list)) and isinstance(call[1], dict):
            return call
        return call, {}
    raise ArgumentError(
        f"enqueue_many was given a call of type {type(call).__name__}. "
        "Give a tuple of arguments, a dict of keyword arguments, or a pair (args, kwargs)."
    )


def _send(task: Any, calls: Iterator[Call], chunk_size: int, options: dict[str, Any]) -> tuple[str, ...]:
    sent: list[str] = []
    while chunk := _take(calls, chunk_size, sent):
        _send_chunk(task, chunk, options, sent)
        sent += [task_id for task_id, _, _ in chunk]
    return tuple(sent)


def _take(calls: Iterator[Call], chunk_size: int, sent: Sequence[str]) -> list[Call]:
    try:
        return list(islice(calls, chunk_size))
    except Exception as error:
        if sent:
            error.add_note(f"The first {len(sent)} calls are sent, in whole chunks of {chunk_size}.")
        raise


def _send_chunk(task: Any, chunk: list[Call], options: dict[str, Any], sent: Sequence[str]) -> None:
    app = task.app
    ids = [task_id for task_id, _, _ in chunk]
    published, is_batched = 0, True
    try:
        with deadline(app.publish_timeout_seconds):
            if direct_bulk.send_chunk(task, chunk, options):
                return
        with (
            published_now(),
            app.producer_or_acquire() as producer,
            # pipelined on Redis; a transport that cannot do it publishes at once
            producer.batch(COMMANDS_A_MESSAGE * len(chunk)) as batch,
        ):
            is_batched = producer.supports_batch_publish
            for task_id, args, kwargs in chunk:
                task.apply_async(args, kwargs, task_id=task_id, producer=producer, **options)
                published += 1
            # The budget is the broker's: making hundreds of messages takes long enough on a busy machine.
            with deadline(app.publish_timeout_seconds):
                batch.flush()
    except BatchPublishError as error:
        raise _stopped(error, sent=sent, uncertain=ids) from error
    except (OperationalError, RuntimeError) as error:
        # A RuntimeError says that the batch has lost its channel to a reconnect.
        if is_batched:
            # the batch was discarded before anything of it was sent
            raise _stopped(error, sent=sent, unsent=ids) from error
        raise _stopped(
            error,
            sent=[*sent, *ids[:published]],
            uncertain=ids[published : published + 1],
            unsent=ids[published + 1 :],
        ) from error


def _stopped(
    error: Exception, *, sent: Sequence[str], unsent: Sequence[str] = (), uncertain: Sequence[str] = ()
) -> BulkPublishError:
    reason = mask_url(str(error.__cause__ or error)).rstrip(".")
    return BulkPublishError(reason, sent=sent, unsent=unsent, uncertain=uncertain)
