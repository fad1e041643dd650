"""The layer that lets one run at a time go on, by key, across the fleet.

A run holds the lock through a lease that is renewed while the run lasts, and frees it when the run has ended,
whatever the end. The lock of a run whose process has died is free when its lease ends. What becomes of a run
that finds the lock held is the task's `on_conflict`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import structlog

from taskyard.errors import StateUnavailableError, TaskDefinitionError, did_you_mean
from taskyard.outcomes import Cancel, Snooze
from taskyard.state import Claim, StateStore, describe_holder, held, new_owner
from taskyard.tasks.call_keys import call_key, check_key_spec, declared_spec, stored_key
from taskyard.tasks.claims import RunClaim
from taskyard.tasks.duplicates import announce_duplicate, holder_text
from taskyard.tasks.run_context import header_of, set_header
from taskyard.tasks.singleton_waiting import begin_to_wait, leave_if_replaced, wait_as_the_newest

if TYPE_CHECKING:
    from taskyard.tasks.run import Run

log = structlog.stdlib.get_logger("taskyard.task")

KIND = "singleton"
OPTIONS = ("singleton_key", "on_conflict", "snooze_seconds", "on_state_loss")
ON_CONFLICT = ("snooze", "skip", "replace")
ON_STATE_LOSS = ("refuse", "run")
# Where the lock is on the request, which is the run's own: the task object is shared by threads.
ATTRIBUTE = "taskyard_lease"
# Message header of a run that was lost while it had the lock: it has begun, so it is never left out.
LOST_RUN = "singleton_lost_run"
# After the end of a lease: the server counts it, and this is how late its answer may have come.
LEASE_MARGIN_SECONDS = 0.5


def is_needed(task: Any) -> bool:
    """Return whether runs of the task go through this layer."""
    return getattr(task, "singleton_key", None) is not None


def hold_singleton(run: Run, call_next: Callable[[], Any]) -> Any:
    task, request = run.task, run.request
    store, owner, seconds = task.app.state_store, new_owner(), task.app.settings.lease_seconds
    key = key_of(task, run.args, run.kwargs)
    try:
        if task.on_conflict == "replace":
            leave_if_replaced(run, store, key)
        attempt = store.acquire(
            key, owner=owner, holder=describe_holder(task, request), lease_seconds=seconds
        )
    except StateUnavailableError as error:
        return _run_without_lock(run, key, error, call_next)
    if not attempt.is_granted:
        _settle_conflict(run, store, attempt.claim)
    try:
        with held(store, attempt.claim, lease_seconds=seconds) as lease:
            setattr(request, ATTRIBUTE, RunClaim(key, lease=lease))
            return call_next()
    finally:
        _release(store, key, owner)


def lease_of(request: Any) -> RunClaim:
    """Return the lock of the run of a request; outside of a run, one that stands for nothing."""
    return getattr(request, ATTRIBUTE, None) or RunClaim()


def key_of(task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return the key of a call as the state store knows it.

    Raises:
        ArgumentError: the arguments give no key.
        TypeError: the task does not take these arguments.
    """
    return stored_key(KIND, task.name, call_key(task, declared_spec(task, "singleton_key"), args, kwargs))


def _settle_conflict(run: Run, store: StateStore, claim: Claim) -> NoReturn:
    task, request = run.task, run.request
    is_own_lost_run = claim.holder.get("task_id") == request.id
    is_new = begin_to_wait(request)
    if is_own_lost_run:
        # This message has come back while the lease of its lost run still stands. To leave it out would be to
        # lose the task, also if another run is faster to take the lock.
        set_header(request, LOST_RUN, True)
    elif not header_of(request, LOST_RUN):
        # an eager run cannot wait
        if task.on_conflict == "skip" or request.is_eager:
            announce_duplicate(task, request, claim, what=KIND, outcome="skipped")
            raise Cancel(f"skipped: {holder_text(claim)}")
        if task.on_conflict == "replace":
            _replace_the_waiting(run, store, claim.key)
    if is_new:
        # once a call, however often it comes up in vain
        announce_duplicate(task, request, claim, what=KIND, outcome="snoozed")
    seconds = _snooze_seconds(task)
    if is_own_lost_run:
        seconds = min(seconds, max(0.0, claim.expires_in_seconds) + LEASE_MARGIN_SECONDS)
    raise Snooze(seconds, holder_text(claim))


def _replace_the_waiting(run: Run, store: StateStore, key: str) -> None:
    try:
        wait_as_the_newest(run, store, key, remember_seconds=run.task.snooze_seconds)
    except StateUnavailableError as error:
        log.warning("an older run may wait, too: the state store is away", key=key, error=str(error))


def _snooze_seconds(task: Any) -> float:
    # spread, so that those who wait do not all come at once for one of them to go on
    return float(task.snooze_seconds) * random.uniform(0.5, 1.0)  # noqa: S311


def _run_without_lock(run: Run, key: str, error: StateUnavailableError, call_next: Callable[[], Any]) -> Any:
    if run.task.on_state_loss == "run":
        log.warning("state store away, the task runs without its lock", key=key, error=str(error))
        setattr(run.request, ATTRIBUTE, RunClaim(key, is_missing=True))
        return call_next()
    if run.request.is_eager:
        raise error
    log.warning("state store away, the run is put off", key=key, error=str(error))
    raise Snooze(_snooze_seconds(run.task), "the state store is away") from error


def _release(store: StateStore, key: str, owner: str) -> None:
    """Free the lock for the next run. Never raises: a lease that stays ends by itself."""
    try:
        is_ours = store.release(key, owner=owner)
        other = None if is_ours else store.read(key)
    except StateUnavailableError as error:
        log.warning(
            "lock not released, the next run waits for the end of its lease", key=key, error=str(error)
        )
        return
    if not is_ours:
        log.warning(
            "lock lost during the run: its lease has ended, or somebody has released it",
            key=key,
            now=None if other is None else holder_text(other),
        )


def check_declaration(task: Any) -> None:
    """Refuse options that contradict each other or could never work.

    Raises:
        TaskDefinitionError: names the option, its value and what to write instead.
    """
    if not hasattr(task, "singleton_key"):
        return
    check_key_spec(task, "singleton_key", declared_spec(task, "singleton_key"))
    _check_choice(task, "on_conflict", ON_CONFLICT)
    if task.on_state_loss is not None:
        _check_choice(task, "on_state_loss", ON_STATE_LOSS)
    seconds = task.snooze_seconds
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < math.inf:
        raise TaskDefinitionError(
            f"Task {task.name!r} has snooze_seconds={seconds!r}. Give seconds above 0: how long a run waits "
            "that finds the lock held."
        )


def _check_choice(task: Any, option: str, choices: Sequence[str]) -> None:
    value = getattr(task, option)
    if value not in choices:
        raise TaskDefinitionError(
            f"Task {task.name!r} has {option}={value!r}.{did_you_mean(str(value), choices)} "
            f"Use one of: {', '.join(choices)}."
        )
