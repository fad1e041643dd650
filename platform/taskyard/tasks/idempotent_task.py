"""The base of tasks that run once by key."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from celery.exceptions import Ignore

from taskyard.tasks import idempotency
from taskyard.tasks.base import Task
from taskyard.tasks.claims import RunClaim
from taskyard.tasks.replacements import may_have_key


class IdempotentTask(Task):
    """A task whose calls with the same key run once; a duplicate gets the first result.

    Options, besides those of `Task`:
        idempotency_key: what makes two calls the same work: the name of an argument ("order_id"), a template
            over arguments ("charge:{order_id}:{currency}"), "*" for all arguments, or a function of those of
            the arguments that it names. Defaults count; by place or by name is the same.
        idempotency_scope: what the key is unique in; the task's name when unset. Two tasks with the same
            scope share their keys.
        idempotency_ttl: seconds or a `timedelta` for which a key that is done is remembered;
            IDEMPOTENCY_TTL_SECONDS when unset.
        on_duplicate: what becomes of another call while the first one runs: "snooze" (default: it runs again
            later, and then gets the first result) or "skip" (it is cancelled). A message of the first call
            itself that comes again is never skipped.
        on_state_loss: where the state store does not answer at the start: "refuse" (the run is put off, no
            attempt is used up) or "run" (it runs without a claim). When unset, "refuse" on the queue
            `critical`, "run" elsewhere.

    A call that gives no key (None or an empty text) is a final failure: it is not retried.

    Delivery: at least once, as for every task. A success is remembered, so what is delivered again afterwards
    does not run. A run that fails, is retried, snoozed or cancelled frees its key.

    Does not guarantee an effect that happens exactly once: if the process dies between the effect and the
    record of it, the next delivery has the effect again. Where that must not be, have the other side of the
    effect know its key, too (`effect_once`, a unique constraint, the idempotency key of a provider).
    """

    abstract = True

    idempotency_key: Any = None
    idempotency_scope: str | None = None
    idempotency_ttl: float | timedelta | None = None
    on_duplicate: str = "snooze"
    on_state_loss: str | None = None

    def on_replace(self, sig: Any) -> Any:
        """Celery's hook of `self.replace(...)`: the work goes on as another task, and the key is done."""
        needs_key = may_have_key(sig, self)
        try:
            return super().on_replace(sig)
        except Ignore:
            # it is published
            self.claim.is_replaced = not needs_key
            raise

    @property
    def claim(self) -> RunClaim:
        """The claim of this run: its `key`, its `fence`, `is_held` and `assert_held()`.

        In a task that is called as a function, one that is held and has no key.
        """
        return idempotency.claim_of(self.request)
