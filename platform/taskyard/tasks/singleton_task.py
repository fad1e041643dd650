"""The base of tasks that run one at a time by key."""

from __future__ import annotations

from typing import Any

from taskyard.tasks import singleton
from taskyard.tasks.base import Task
from taskyard.tasks.claims import RunClaim


class SingletonTask(Task):
    """A task of which one run at a time goes on by key, in the whole fleet.

    Options, besides those of `Task`:
        singleton_key: what must not run at the same time: "" (default) for all calls of the task, the name of
            an argument ("tenant_id"), a template over arguments ("{tenant_id}-{year}"), "*" for equal calls,
            or a function of those of the arguments that it names.
        on_conflict: what becomes of a run that finds the lock held: "snooze" (default: it waits, and runs
            later), "skip" (it is cancelled, with "held by ... since ..." as its result), or "replace" (it
            waits in place of an older one that waits, which is cancelled).
        snooze_seconds: how long a run that waits is put off, at most; 5 by default.
        on_state_loss: where the state store does not answer: "refuse" (default: the run is put off) or "run"
            (it runs without a lock).

    The lock is a lease of LEASE_SECONDS, renewed while the run lasts and released at its end, whatever the
    end; that of a dead process is free when its lease ends. A message that comes back while its own lost run
    still has the lock waits, whatever `on_conflict` says.

    Delivery: at least once, as for every task.

    Does not guarantee an order: of those that wait, any may be next. Does not stop a run whose lease has
    ended while its process was frozen; what must not be written then compares `self.lease.fence`.
    """

    abstract = True

    singleton_key: Any = ""
    on_conflict: str = "snooze"
    snooze_seconds: float = 5.0
    on_state_loss: str | None = None

    @property
    def lease(self) -> RunClaim:
        """The lock of this run: its `key`, its `fence`, `is_held` and `assert_held()`.

        In a task that is called as a function, one that is held and has no key.
        """
        return singleton.lease_of(self.request)
