"""The default base of every task.

The life of one run is the list in `taskyard.tasks.run.RUN`, in order. What happens when a task is called is
in `taskyard.tasks.publish`; both are short enough to read.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import celery
from celery.exceptions import CDeprecationWarning, Reject

from taskyard.retry import RetryPolicy
from taskyard.tasks import attempts, definition, redaction
from taskyard.tasks.bulk import BulkResult, enqueue_many
from taskyard.tasks.canvas_parts import published_limits
from taskyard.tasks.outcome import keep_late_failure
from taskyard.tasks.publish import is_broker_failure, published_now
from taskyard.tasks.run import Layer, layers_of, run_task

MISSING = object()


class Task(celery.Task):
    """A Celery task with the limits, retries and guards of its queue.

    Options (all may be given to `@shared_task`):
        name: required; stable, `<area>.<verb_object>`, not derived from the module.
        queue: one of the queue table; decided by the router when unset.
        priority: 0 to 9, 9 the most urgent; see `taskyard.Priority`.
        retry: a policy of `taskyard.retry`; that of the queue when unset.
        on_exhausted: "dead_letter" or "drop" when the retries have ended; that of the queue when unset.
        redact: names of arguments that no log, event or page may show; ("*",) for all.
        soft_time_limit, time_limit: seconds; those of the queue when unset.
        on_commit: publish after the surrounding database transaction commits; True by default.
        breaker: name of the circuit breaker around what the task calls; see `taskyard.tasks.breaking`.
        handles_soft_limit: the task catches its soft time limit on purpose and ends in order; False by
            default: a run that comes to an end after its soft limit has failed.
        unique_for, unique_key, unique, unique_until: leave out equal calls; see `taskyard.tasks.unique`.
        idempotent: "natural" where running twice does no harm, with `idempotent_reason` saying why.

    Delivery: at least once. A task whose worker dies runs again; make its effect idempotent.
    """

    abstract = True
    # The worker-side request that knows the queue's limits and writes dead letters before the ack.
    Request = "taskyard.worker.request:Request"
    # Celery would give each task the limits of the configuration, and those of its queue would never apply.
    from_config = tuple(
        pair for pair in celery.Task.from_config if pair[0] not in ("time_limit", "soft_time_limit")
    )

    queue: str | None = None
    priority: int | None = None
    retry_policy: RetryPolicy | None = None
    on_exhausted: str | None = None
    redact: Sequence[str] = ()
    on_commit: bool = True
    idempotent: str | None = None
    idempotent_reason: str = ""
    breaker: Any = None
    handles_soft_limit: bool = False
    unique_for: float | timedelta | None = None
    unique_key: Any = None
    unique: str | None = None
    unique_until: str | None = None
    run_layers: tuple[Layer, ...] = ()
    _decorated = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        given = vars(cls).get("retry", MISSING)
        if given is None or isinstance(given, RetryPolicy):
            # `retry=` is the natural name of the option, and the name of Celery's method
            cls.retry_policy = given
            del cls.retry
        if vars(cls).get("_decorated"):
            definition.check_options(cls, cls.__bases__[0])

    @classmethod
    def bind(cls, app: Any) -> Any:
        with warnings.catch_warnings():
            # Celery 6 drops the attributes; here they are how a task says its queue and its priority, which
            # our router and our publish read.
            warnings.filterwarnings(
                "ignore", r"\s*The '(queue|priority)' task attribute", category=CDeprecationWarning
            )
            return super().bind(app)

    @classmethod
    def on_bound(cls, app: Any) -> None:
        """Celery's hook: the task has met its app, so its queue, limits and policy are known now."""
        prepare = getattr(app, "prepare_task", None)
        if prepare is not None:
            prepare(cls)
        cls.run_layers = layers_of(cls)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.request.called_directly:
            return super().__call__(*args, **kwargs)
        return run_task(self, args, kwargs)

    def retry(self, args: Any = None, kwargs: Any = None, exc: Any = None, *rest: Any, **options: Any) -> Any:
        """Run the task again; see Celery's `Task.retry`.

        Differs from Celery in three points: the retry is published at once, also inside a transaction (which
        the `Retry` exception is about to roll back); if the broker does not take it the message is put back
        instead of being rejected for good; and the message carries this run as an attempt.
        """
        error = exc if isinstance(exc, BaseException) else sys.exception()
        try:
            with published_now(), attempts.noted(self.request, error):
                return super().retry(args, kwargs, exc, *rest, **options)
        except Reject as reject:
            if is_broker_failure(reject.reason):
                raise Reject(reject.reason, requeue=True) from reject
            # Put back, it would fail again at once and for ever.
            raise reject.reason from reject
        except self.MaxRetriesExceededError:
            if not self.redact:
                raise
            # Celery's text shows the arguments
            raise self.MaxRetriesExceededError(f"Can't retry {self.name}[{self.request.id}]") from None

    def signature_from_request(
        self, request: Any = None, args: Any = None, kwargs: Any = None, queue: Any = None, **options: Any
    ) -> Any:
        """Return the call of a run, to be published again; with the limits that the caller gave, if any.

        Celery's would state those of this run: the queue's, once changed, would not hold for what is retried.
        """
        hard, soft = published_limits(self.request if request is None else request)
        options = {"time_limit": hard, "soft_time_limit": soft, **options}
        return super().signature_from_request(request, args, kwargs, queue, **options)

    def on_replace(self, sig: Any) -> Any:
        """Celery's hook of `self.replace(...)`: publishes at once, since what ends this run rolls back."""
        with published_now():
            return super().on_replace(sig)

    def on_failure(self, exc: Any, task_id: str, args: Any, kwargs: Any, _: Any) -> None:
        """Celery's hook for every final failure; keeps those that ended after the task's own code.

        A result that is not JSON, for instance, fails when it is stored. A subclass that overrides this calls
        it.
        """
        if self.request.id == task_id:
            keep_late_failure(self, exc, args, kwargs)

    def on_cancelled(self, reason: str, task_id: str, args: Any, kwargs: Any) -> None:
        """Hook for every task that ends as cancelled, also one that has not started; for what waits for it.

        What it raises is logged and changes nothing. Like Celery's hooks it may be given to the decorator.
        """

    def enqueue_many(self, calls: Iterable[Any], *, chunk_size: int = 500, **options: Any) -> BulkResult:
        """Publish many calls of this task, pipelined: thousands a second instead of hundreds.

        Args:
            calls: for each call, a tuple of positional arguments, a dict of keyword arguments, or a pair
                `(args, kwargs)` of both.
            chunk_size: messages a round trip.
            options: execution options for all of them, as for `apply_async`.

        Inside an open transaction, everything waits for the commit, as with `apply_async`.

        Returns:
            the task ids in the order of the calls.

        Raises:
            ArgumentError: a call is wrong; nothing of its chunk or the later ones was sent, and a note on the
                error counts what was.
            BulkPublishError: the broker failed midway; says which ids are sent, unsent and uncertain. At the
                commit, where it was waited for.
        """
        return enqueue_many(self, calls, chunk_size=chunk_size, options=options)

    def redacted(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments as they may be shown."""
        marked = redaction.marks_of(self, args, kwargs)
        return redaction.redact_arguments(args, kwargs, run=self.run, marked=marked)
