"""The layer that runs a task once by key; a duplicate gets the first result.

A key is *held* by one run at a time, through a lease that is renewed while the run lasts, and *done* for a
time once a run has succeeded. A run that ends in any other way frees the key, so that its retry, its replay
or the next call can take it. What is left over, a process killed between the effect and the record of it, is
in the guide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import structlog
from celery.exceptions import Ignore

from taskyard.clock import Clock
from taskyard.errors import StateUnavailableError
from taskyard.outcomes import Cancel, Snooze
from taskyard.state import Attempt, Claim, describe_holder, held, new_owner
from taskyard.tasks.call_keys import call_key, declared_spec, stored_key
from taskyard.tasks.claims import RunClaim, Settlement, first_result
from taskyard.tasks.duplicates import announce_duplicate, holder_text
from taskyard.tasks.idempotency_options import OPTIONS, check_declaration, ttl_seconds

if TYPE_CHECKING:
    from taskyard.tasks.run import Run

__all__ = ["OPTIONS", "check_declaration", "claim_of", "claim_once", "is_needed", "key_of"]

log = structlog.stdlib.get_logger("taskyard.task")

KIND = "idempotent"
# The queue whose tasks refuse to run without the state store, unless they say otherwise.
CRITICAL = "critical"
# A duplicate looks again after as long as the first run has lasted so far, within these.
MIN_SNOOZE_SECONDS = 1.0
MAX_SNOOZE_SECONDS = 30.0
# After the end of a lease: the server counts it, and this is how late its answer may have come.
LEASE_MARGIN_SECONDS = 0.5
STATE_RETRY_SECONDS = 5.0
# Where the claim is on the request, which is the run's own: the task object is shared by threads.
ATTRIBUTE = "taskyard_claim"


def is_needed(task: Any) -> bool:
    """Return whether runs of the task go through this layer."""
    return getattr(task, "idempotency_key", None) is not None


def claim_once(run: Run, call_next: Callable[[], Any]) -> Any:
    settlement = _settlement(run)
    try:
        attempt = settlement.store.acquire(
            settlement.key,
            owner=settlement.owner,
            holder=settlement.holder,
            lease_seconds=settlement.lease_seconds,
        )
    except StateUnavailableError as error:
        return _run_without_claim(run, settlement, error, call_next)
    if not attempt.is_granted:
        return _settle_duplicate(run, attempt)
    try:
        with held(settlement.store, attempt.claim, lease_seconds=settlement.lease_seconds) as lease:
            setattr(run.request, ATTRIBUTE, RunClaim(settlement.key, lease=lease))
            result = call_next()
    except Ignore:
        if claim_of(run.request).is_replaced:
            # to run it again would be to publish the other task twice
            _complete(run, settlement, None, patience_seconds=settlement.lease_seconds)
        else:
            settlement.release()
        raise
    except BaseException:
        settlement.release()
        raise
    _complete(run, settlement, result, patience_seconds=settlement.lease_seconds)
    return result


def claim_of(request: Any) -> RunClaim:
    """Return the claim of the run of a request; outside of a run, one that stands for nothing."""
    return getattr(request, ATTRIBUTE, None) or RunClaim()


def key_of(task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return the key of a call as the state store knows it.

    Raises:
        ArgumentError: the arguments give no key.
        TypeError: the task does not take these arguments.
    """
    key = call_key(task, declared_spec(task, "idempotency_key"), args, kwargs)
    return stored_key(KIND, task.idempotency_scope or task.name, key)


def _settlement(run: Run) -> Settlement:
    task, settings = run.task, run.task.app.settings
    seconds = ttl_seconds(task)
    return Settlement(
        store=task.app.state_store,
        key=key_of(task, run.args, run.kwargs),
        owner=new_owner(),
        holder=describe_holder(task, run.request),
        lease_seconds=settings.lease_seconds,
        remember_seconds=settings.idempotency_ttl_seconds if seconds is None else seconds,
        result_limit_bytes=settings.argument_limit_bytes,
    )


def _settle_duplicate(run: Run, attempt: Attempt) -> Any:
    task, request, claim = run.task, run.request, attempt.claim
    if claim.state == "done":
        announce_duplicate(task, request, claim, what=KIND, outcome="returned")
        return first_result(claim)
    # The same task id is not another call: its message has come back while the lease of its lost run still
    # stands. To skip it would be to lose the task.
    is_same_task = claim.holder.get("task_id") == request.id
    # an eager run cannot wait
    if (task.on_duplicate == "skip" and not is_same_task) or request.is_eager:
        announce_duplicate(task, request, claim, what=KIND, outcome="skipped")
        raise Cancel(f"skipped: {holder_text(claim)}")
    announce_duplicate(task, request, claim, what=KIND, outcome="snoozed")
    seconds = _snooze_seconds(claim, task.app.taskyard.clock, is_same_task=is_same_task)
    raise Snooze(seconds, holder_text(claim))


def _snooze_seconds(claim: Claim, clock: Clock, *, is_same_task: bool) -> float:
    lasted = clock.now().timestamp() - claim.since
    seconds = min(max(lasted, MIN_SNOOZE_SECONDS), MAX_SNOOZE_SECONDS)
    if not is_same_task:
        return seconds
    return min(seconds, max(0.0, claim.expires_in_seconds) + LEASE_MARGIN_SECONDS)


def _run_without_claim(
    run: Run, settlement: Settlement, error: StateUnavailableError, call_next: Callable[[], Any]
) -> Any:
    if _refuses(run):
        if run.request.is_eager:
            raise error
        log.warning("state store away, the run is put off", key=settlement.key, error=str(error))
        raise Snooze(STATE_RETRY_SECONDS, "the state store is away") from error
    log.warning("state store away, the task runs without its claim", key=settlement.key, error=str(error))
    setattr(run.request, ATTRIBUTE, RunClaim(settlement.key, is_missing=True))
    result = call_next()
    # if the store is back by now, a later duplicate shall find it done
    _complete(run, settlement, result, patience_seconds=0)
    return result


def _refuses(run: Run) -> bool:
    task = run.task
    if task.on_state_loss is not None:
        return bool(task.on_state_loss == "refuse")
    came_from = (run.request.delivery_info or {}).get("routing_key")
    return CRITICAL in (came_from, task.app.router.home_queue(task.name, task.queue))


def _complete(run: Run, settlement: Settlement, result: Any, *, patience_seconds: float) -> None:
    other = settlement.complete(result, patience_seconds=patience_seconds)
    if other is None:
        return
    log.error(
        "effect done by two runs: the claim was lost meanwhile",
        key=settlement.key,
        other_task_id=other.holder.get("task_id"),
        other_worker=other.holder.get("worker"),
        other_is_done=other.state == "done",
    )
    announce_duplicate(run.task, run.request, other, what=KIND, outcome="doubled")
