"""Between `.delay()` and the broker: guard, stamp, wait for the commit, publish within the budget."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from celery._state import get_current_worker_task
from celery.exceptions import QueueNotFound
from kombu.exceptions import EncodeError, OperationalError

from taskyard.clock import Clock
from taskyard.correlation import HEADER as CORRELATION_HEADER
from taskyard.correlation import current_correlation_id
from taskyard.errors import PublishError, PublishTimeoutError
from taskyard.masking import mask_url
from taskyard.transport.deadline import Answers, deadline, remaining_seconds, watch_answers

logger = logging.getLogger(__name__)

PUBLISHED_AT = "published_at"
FIRST_PUBLISHED_AT = "first_published_at"
# What is kept back from the budget for the last error to travel up: the caller's promise includes it.
BUDGET_RESERVE_SECONDS = 0.1
# Between two attempts: short, since the budget is, and long enough not to spin on a refused connection.
PAUSE_SECONDS = 0.1

_now_only: ContextVar[bool] = ContextVar("taskyard_publish_now", default=False)


@contextmanager
def published_now() -> Iterator[None]:
    """Publish at once inside this block, whatever transaction is open."""
    token = _now_only.set(True)
    try:
        yield
    finally:
        _now_only.reset(token)


def stamp_headers(headers: dict[str, Any] | None, *, task_id: str, clock: Clock) -> dict[str, Any]:
    """Return the message headers with correlation id and publish times.

    `published_at` is this publish, `first_published_at` the first one of a task that is retried or snoozed.
    Both are UTC epoch seconds.
    """
    stamped = dict(headers or {})
    now = clock.now().timestamp()
    stamped[CORRELATION_HEADER] = (
        stamped.get(CORRELATION_HEADER) or current_correlation_id() or _correlation_id_of_run() or task_id
    )
    stamped[PUBLISHED_AT] = now
    stamped.setdefault(FIRST_PUBLISHED_AT, now)
    return stamped


def _correlation_id_of_run() -> str | None:
    """Return that of the run in this thread: callbacks and chains are published after the task's own code."""
    task = get_current_worker_task()
    return None if task is None else task.request.correlation_id


def must_wait_for_commit(on_commit: bool) -> bool:
    """Return whether a publish made now has to wait for the transaction that this thread has open."""
    if not on_commit or _now_only.get():
        return False
    from django.db import connection

    # `connection` is not opened by being asked
    return connection.in_atomic_block


def after_commit(publish: Callable[[], Any]) -> None:
    """Call `publish` once the transaction has committed; never if it rolls back."""
    from django.db import transaction

    def send() -> None:
        try:
            publish()
        except PublishError as error:
            logger.error("The transaction is committed, but its task is not published: %s", error)  # noqa: TRY400
            raise

    transaction.on_commit(send)


def publish_within_budget(
    send: Callable[[], Any], *, budget_seconds: float, task_name: str, task_id: str
) -> Any:
    """Call `send` until it succeeds or the budget is used up.

    Raises:
        PublishTimeoutError: the broker did not take the message in time.
        PublishError: the broker refused it, for instance because its memory is full.
        Both say in `may_have_arrived` whether the broker may have taken it in an earlier attempt.
    """
    what = f"Task {task_name}[{task_id}]"
    with deadline(max(0.05, budget_seconds - BUDGET_RESERVE_SECONDS)), watch_answers() as answers:
        while True:
            try:
                return send()
            except (EncodeError, QueueNotFound):
                raise
            except OperationalError as error:
                if isinstance(error, PublishError):
                    raise
                left = remaining_seconds() or 0.0
                if left <= PAUSE_SECONDS:
                    raise _with(
                        answers,
                        PublishTimeoutError(
                            f"{what} {_fate(answers)}: the broker did not {_act(answers)} it within "
                            f"{budget_seconds:g} s ({_reason(error)}). Check the broker with "
                            "`manage.py taskyard doctor`; the budget is PUBLISH_TIMEOUT_SECONDS."
                        ),
                    ) from error
                if _is_refusal(error):
                    raise _with(
                        answers,
                        PublishError(f"{what} {_fate(answers)}: the broker refused it ({_reason(error)})."),
                    ) from error
            time.sleep(PAUSE_SECONDS)


def is_broker_failure(error: object) -> bool:
    """Return whether a publish failed for the broker's sake, so that the same call may succeed later.

    Everything else (a changed signature, arguments that grew too large) fails again each time.
    """
    return isinstance(error, (OperationalError, OSError)) and not isinstance(error, EncodeError)


def _is_refusal(error: OperationalError) -> bool:
    """Whether the broker answered, with a no: asking again within the budget would not change it."""
    from redis.exceptions import AuthenticationError, BusyLoadingError, ReadOnlyError, ResponseError

    cause = error.__cause__ or error
    if isinstance(cause, AuthenticationError):
        return True
    return isinstance(cause, ResponseError) and not isinstance(cause, (BusyLoadingError, ReadOnlyError))


def _with(answers: Answers, error: PublishError) -> PublishError:
    error.may_have_arrived = answers.is_lost
    return error


def _fate(answers: Answers) -> str:
    return "may have been published, or not" if answers.is_lost else "was not published"


def _act(answers: Answers) -> str:
    return "confirm" if answers.is_lost else "take"


def _reason(error: BaseException) -> str:
    return mask_url(str(error)).rstrip(".") or type(error).__name__
