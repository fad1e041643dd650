"""Writing of dead letters. A row is written before its message is acknowledged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, connections, router, transaction
from django.db.utils import InterfaceError, OperationalError
from kombu.utils.json import dumps

from taskyard import signals
from taskyard.conf import get_settings
from taskyard.deadletters import counts, transactions
from taskyard.deadletters.models import DeadLetter
from taskyard.deadletters.models.fault_count import FINGERPRINT_LENGTH
from taskyard.sealing import seal
from taskyard.tasks import failures
from taskyard.tasks.plain_values import plain, plain_text

T = TypeVar("T")
# Long text (a hostile message, an error that holds a document) is kept up to here: enough to see what it is.
TEXT_LIMIT = 256 * 1024
# A whole message, which a replay needs; arguments alone may have ARGUMENT_LIMIT_BYTES.
RAW_LIMIT = 4 * 1024 * 1024
SMALL_INTEGERS = 1 << 15
# Header of a message that a replay has published: the id of the dead letter.
REPLAY_OF = "replay_of_dead_letter"


def record(failure: failures.Failure) -> None:
    """Store a final failure, once, however often it is reported, and then send `dead_letter_recorded`.

    The row is committed when this returns, also where the caller has a transaction open (on SQLite it is part
    of that transaction). The signal is sent at most once: a process that dies in between sends none.

    Raises:
        django.db.Error: the database did not take it; the message must not be acknowledged.
    """
    values = _values(failure)
    identity = {name: values.pop(name) for name in ("task_id", "retries", "reason")}
    using = router.db_for_write(DeadLetter)

    def write() -> tuple[DeadLetter, bool]:
        values["replay_of_id"] = _replayed_letter(failure.headers, identity["task_id"])
        with transaction.atomic(using=using):
            letter, is_new = _get_or_create(identity, values)
            if is_new:
                counts.add(letter)
        return letter, is_new

    letter, is_new = transactions.beside(
        lambda: _retry_once_on_stale_connection(write, using=using), using=using
    )
    if is_new:
        transactions.after_commit(lambda: _announce(letter, failure), using=using)


def _get_or_create(identity: dict[str, Any], values: dict[str, Any]) -> tuple[DeadLetter, bool]:
    if identity["task_id"]:
        return DeadLetter.objects.get_or_create(**identity, defaults=values)
    return DeadLetter.objects.create(**identity, **values), True


def record_undecodable(queue: str, raw: bytes, reason: str) -> None:
    """Store a message that the transport could not decode, and log it as every dead letter is."""
    failures.record(
        failures.Failure(
            task_name="",
            task_id="",
            reason=DeadLetter.Reason.UNDECODABLE,
            queue=queue,
            error=reason,
            raw=raw[:TEXT_LIMIT].decode("utf-8", "backslashreplace"),
        )
    )


def fingerprint_of(*, task_name: str, reason: str, error_type: str, error_place: str) -> str:
    """Return what all failures by the same fault have in common, whatever the texts of their errors say."""
    parts = "\n".join((task_name, reason, error_type, error_place))
    return hashlib.sha256(parts.encode()).hexdigest()[:FINGERPRINT_LENGTH]


def _values(failure: failures.Failure) -> dict[str, Any]:
    names = {
        "task_name": _name(failure.task_name),
        "reason": failure.reason,
        "error_type": _name(failure.error_type),
        "error_place": _name(failure.error_place),
    }
    settings = get_settings()
    shown = {name: plain(getattr(failure, name)) for name in ("args", "kwargs", "canvas")}
    sealed = _sealed_content(failure, shown)
    return {
        **names,
        "fingerprint": fingerprint_of(**names),
        "task_id": _name(failure.task_id),
        "queue": _name(failure.queue),
        "priority": _integer(failure.priority),
        **shown,
        "sealed": "" if sealed is None else seal(sealed, settings),
        "headers": plain(failure.headers),
        "correlation_id": _name(failure.correlation_id),
        "retries": _integer(failure.retries) or 0,
        "worker": _name(failure.worker),
        "attempts": plain(failure.attempts),
        "error": plain_text(failure.error)[:TEXT_LIMIT],
        "traceback": plain_text(failure.traceback)[-TEXT_LIMIT:],
        "sealed_raw": seal(failure.raw[:RAW_LIMIT], settings) if failure.raw else "",
    }


def _sealed_content(failure: failures.Failure, shown: dict[str, Any]) -> dict[str, Any] | None:
    """Return what has to be encrypted: the true call, where the one that is shown is not the same."""
    true: dict[str, Any] = {
        "args": failure.true_args,
        "kwargs": failure.true_kwargs,
        "canvas": failure.true_canvas,
    }
    if not any(true.values()):
        return None
    call = {name: _on_the_wire(value) for name, value in true.items()}
    # NaN, NUL characters and the like are shown as something else, too
    return None if call == shown else call


def _on_the_wire(value: Sequence[Any] | Mapping[str, Any]) -> Any:
    try:
        return json.loads(dumps(value))
    except Exception:
        # whatever it is, it never came with a message
        return plain(value)


def _replayed_letter(headers: Mapping[str, Any], task_id: str) -> int | None:
    """Return the id of the dead letter whose replay has failed, if it is one and is still there."""
    number = headers.get(REPLAY_OF)
    if type(number) is not int or not task_id:
        return None
    return DeadLetter.objects.filter(pk=number, replay_task_id=task_id).values_list("pk", flat=True).first()


def _announce(letter: DeadLetter, failure: failures.Failure) -> None:
    # Django logs what a receiver raises
    signals.dead_letter_recorded.send_robust(DeadLetter, letter=letter, failure=failure)


def _name(value: str) -> str:
    return plain_text(value)[:255]


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 <= value < SMALL_INTEGERS else None


def _retry_once_on_stale_connection(write: Callable[[], T], *, using: str = DEFAULT_DB_ALIAS) -> T:
    """Write; if the server has closed the connection meanwhile, write again on a new one."""
    # Code that has turned autocommit off and failed would never commit the row.
    _drop_if_unusable(using)
    try:
        return write()
    except (OperationalError, InterfaceError):
        _drop_if_unusable(using)
        return write()


def _drop_if_unusable(using: str) -> None:
    if not connections[using].in_atomic_block:
        connections[using].close_if_unusable_or_obsolete()
