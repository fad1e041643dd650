"""Deduplicated publish: of equal calls within a time, one is published, or the last one runs.

As options of a task or of a call:

    unique_for     seconds or a timedelta. None for a call publishes it whatever the task says.
    unique_key     which calls are equal; see `taskyard.tasks.call_keys`. All arguments when unset.
    unique         "throttle": the first call is published; later ones return its result.
                   "debounce": the last call runs, `unique_for` after it was made.
                   "replace": the last call runs, as soon as possible.
    unique_until   when a throttled call stops standing for later ones: "expiry" of its time (the default),
                   the "start" of its run, or its "end", whatever the end; `unique_for` is then the longest
                   time.

Not compared, because something waits for just this message: parts of a canvas, calls with `link` or
`link_error`, retries, snoozes and replays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from taskyard.errors import ArgumentError, TaskDefinitionError, did_you_mean
from taskyard.tasks.call_keys import ALL_ARGUMENTS, call_key, check_key_spec, declared_spec, stored_key
from taskyard.tasks.unfit_options import LONGEST_SECONDS

KIND = "unique"
OPTIONS = ("unique_for", "unique_key", "unique", "unique_until")
MODES = ("throttle", "debounce", "replace")
ENDS = ("expiry", "start", "end")
# Options of a publish that belongs to a call made before, or has something waiting for it.
_OF_A_FAMILY = (
    "root_id",
    "parent_id",
    "group_id",
    "chord",
    "chain",
    "link",
    "link_error",
    "reply_to",
    "retries",
)


@dataclass(frozen=True, slots=True)
class UniqueCall:
    """How one call is compared with others.

    Args:
        task: name of the task.
        key: under which the state store knows it.
        mode: "throttle", "debounce" or "replace".
        seconds: for how long it stands for equal ones.
        until: "expiry", "start" or "end".
    """

    task: str
    key: str
    mode: str
    seconds: float
    until: str


def take_unique_call(
    name: str,
    task: Any,
    args: Sequence[Any] | None,
    kwargs: Mapping[str, Any] | None,
    options: dict[str, Any],
) -> UniqueCall | None:
    """Take our options out of those of a publish, and say how it is compared; None if it is not.

    Raises:
        ArgumentError: an option cannot work, or the key cannot be made.
    """
    given = {option: options.pop(option) for option in OPTIONS if option in options}
    unique_for = given.get("unique_for", getattr(task, "unique_for", None))
    where = f"The call of task {name!r}"
    if unique_for is None:
        if given.keys() - {"unique_for"}:
            raise ArgumentError(f"{where} has {_first(given)}, but no unique_for. Say for how many seconds.")
        return None
    if any(options.get(option) for option in _OF_A_FAMILY):
        return None
    if not hasattr(task, "run_layers"):
        raise ArgumentError(
            f"{where} has unique_for={unique_for!r}, but in this process there is no taskyard.Task of that "
            "name, so the arguments cannot be compared. Publish it from where the task is declared."
        )
    call = _unique_call(task, unique_for, args or (), kwargs or {}, given, where)
    if call.mode == "debounce" and (options.get("countdown") or options.get("eta")):
        raise ArgumentError(
            f"{where} is debounced and has a countdown or an eta. It runs unique_for={call.seconds:g} s "
            "after the last call; leave the other time out."
        )
    return call


def _unique_call(
    task: Any,
    unique_for: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    given: Mapping[str, Any],
    where: str,
) -> UniqueCall:
    mode = given.get("unique", task.unique) or MODES[0]
    until = given.get("unique_until")
    if until is None and mode == (task.unique or MODES[0]):
        until = task.unique_until
    spec = _key_spec(given.get("unique_key"), declared_spec(task, "unique_key"))
    if given:
        problem = _problem(unique_for, mode, until)
        if problem:
            raise ArgumentError(f"{where} has {problem}")
    if given.get("unique_key") is not None:
        try:
            check_key_spec(task, "unique_key", spec)
        except TaskDefinitionError as error:
            raise ArgumentError(str(error)) from None
    key = stored_key(KIND, task.name, call_key(task, spec, args, kwargs))
    return UniqueCall(task.name, key, mode, _seconds(unique_for), until or ENDS[0])


def refuse_bulk(task: Any, options: Mapping[str, Any]) -> None:
    """Refuse a bulk call of a unique task: comparing needs a round trip and an answer for each call.

    Raises:
        ArgumentError: says how to publish them all the same.
    """
    if options.get("unique_for", task.unique_for) is not None:
        raise ArgumentError(
            f"enqueue_many does not compare calls, and task {task.name!r} has unique_for. Call apply_async "
            "for each of them, or give unique_for=None to publish them all."
        )


def check_declaration(task: Any) -> None:
    """Refuse options that contradict each other or could never work.

    Raises:
        TaskDefinitionError: names the option, its value and what to write instead.
    """
    values = {option: getattr(task, option, None) for option in OPTIONS}
    stated = {option: value for option, value in values.items() if value is not None}
    if not stated:
        return
    if "unique_for" not in stated:
        raise TaskDefinitionError(
            f"Task {task.name!r} has {_first(stated)}, but no unique_for. Say for how many seconds."
        )
    problem = _problem(values["unique_for"], values["unique"] or MODES[0], values["unique_until"])
    if problem:
        raise TaskDefinitionError(f"Task {task.name!r} has {problem}")
    check_key_spec(task, "unique_key", _key_spec(None, declared_spec(task, "unique_key")))


def _key_spec(given: Any, declared: Any) -> Any:
    return next((spec for spec in (given, declared) if spec is not None), ALL_ARGUMENTS)


def _problem(unique_for: Any, mode: Any, until: Any) -> str | None:
    """Return what is wrong, as the end of a sentence; None if nothing is."""
    if not _is_time(unique_for):
        return (
            f"unique_for={unique_for!r}. Give seconds above 0 or a timedelta, up to 10 years; None switches "
            "it off."
        )
    if mode not in MODES:
        return f"unique={mode!r}.{did_you_mean(str(mode), MODES)} Use one of: {', '.join(MODES)}."
    if until is not None and until not in ENDS:
        meant = " Did you mean 'end'?" if until == "success" else did_you_mean(str(until), ENDS)
        return f"unique_until={until!r}.{meant} Use one of: {', '.join(ENDS)}."
    if until is not None and mode != MODES[0]:
        return (
            f"unique={mode!r} and unique_until={until!r}. Leave unique_until out: "
            "it says when a throttled call stops standing for others."
        )
    return None


def _is_time(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float, timedelta)):
        return False
    return 0 < _seconds(value) <= LONGEST_SECONDS


def _seconds(value: Any) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def _first(options: Mapping[str, Any]) -> str:
    name = next(option for option in OPTIONS if option != "unique_for" and option in options)
    return f"{name}={options[name]!r}"
