"""Effects that happen once in a database: the record that one has happened commits with the effect itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from celery._state import get_current_worker_task

from taskyard.clock import SYSTEM_CLOCK, Clock
from taskyard.errors import ArgumentError
from taskyard.outcomes import Cancel
from taskyard.tasks.call_keys import STORED_LENGTH, shortened

PURGE_CHUNK = 500


class EffectDone(Cancel):
    """The effect has happened already, and what the block has done meanwhile is rolled back.

    An outcome, not an error: a task that lets it pass ends as cancelled, without a retry or a dead letter.
    """


class IsFirst:
    """Whether an effect happens for the first time; true or false where it is asked."""

    def __init__(self, key: str, value: bool) -> None:
        self._key = key
        self._value = value
        self._was_asked = False

    def __bool__(self) -> bool:
        self._was_asked = True
        return self._value

    def __repr__(self) -> str:
        return f"<effect {self._key!r}: {'first time' if self._value else 'done before'}>"

    @property
    def is_overlooked(self) -> bool:
        """Whether it is a duplicate, and nobody has asked."""
        return not self._value and not self._was_asked


@contextmanager
def effect_once(key: str, *, using: str = "default") -> Iterator[IsFirst]:
    """Have an effect happen exactly once in a database, however often and in how many processes this runs.

        with effect_once(f"invoice:{order.pk}") as is_first:
            if is_first:
                Invoice.objects.create(order=order)

    The block is a transaction (inside another one, a part of it), which begins with the record of the key.
    Both commit together or not at all. A second one at the same time waits for the first, and is told that it
    is not the first if that has committed; if that has rolled back, it is the first.

    A block that does not ask `is_first` is rolled back when it is not.

    Args:
        key: what the effect is; any text that names it and nothing else. A long one is stored as a hash.
        using: the database of the effect, by its Django alias.

    Raises:
        EffectDone: the effect has happened before, and the block did not ask.
        ArgumentError: the key is empty or not a text.

    Does not cover what is outside of this database: a mail that the block sends is sent again if the process
    dies before the commit. Does not remember for ever: see `purge_effects`.
    """
    from django.db import transaction

    if not isinstance(key, str) or not key:
        raise ArgumentError(
            f"The key of an effect is {key!r}. Give a text that names it, as in f'invoice:{{order.pk}}'."
        )
    with transaction.atomic(using=using):
        is_first = IsFirst(key, _record(shortened(key, STORED_LENGTH), using))
        yield is_first
        if is_first.is_overlooked:
            raise EffectDone(f"the effect {key!r} has happened already")


def purge_effects(
    older_than: timedelta,
    *,
    using: str = "default",
    chunk_size: int = PURGE_CHUNK,
    clock: Clock = SYSTEM_CLOCK,
) -> int:
    """Forget the effects recorded longer ago than this, and return how many.

    Whatever repeats one of them afterwards has it happen again: keep them for longer than any retry, snooze
    or replay of a dead letter may come. Deletes in chunks, each in a transaction of its own.
    """
    from taskyard.models import Effect

    before = clock.now() - older_than
    effects = Effect.objects.using(using)
    purged = 0
    while True:
        keys = list(effects.filter(at__lt=before).order_by("at").values_list("pk", flat=True)[:chunk_size])
        purged += effects.filter(pk__in=keys, at__lt=before).delete()[0]
        if len(keys) < chunk_size:
            return purged


def _record(key: str, using: str) -> bool:
    """Insert the record, and return whether it is new; waits for another transaction that is inserting it."""
    from django.db import connections
    from django.db.models.constants import OnConflict

    from taskyard.models import Effect

    connection = connections[using]
    values = {"key": key, "task_id": _current_task_id(), "at": SYSTEM_CLOCK.now()}
    fields: list[Any] = [Effect._meta.get_field(name) for name in values]
    quote, operations = connection.ops.quote_name, connection.ops
    # Not an INSERT that fails: on PostgreSQL that would end the surrounding transaction.
    statement = " ".join(
        (
            operations.insert_statement(on_conflict=OnConflict.IGNORE),
            quote(Effect._meta.db_table),
            f"({', '.join(quote(field.column) for field in fields)})",
            f"VALUES ({', '.join(['%s'] * len(fields))})",
            operations.on_conflict_suffix_sql(fields, OnConflict.IGNORE, [], []),
        )
    )
    parameters: list[Any] = [
        field.get_db_prep_save(values[field.name], connection=connection) for field in fields
    ]
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return bool(cursor.rowcount == 1)


def _current_task_id() -> str:
    task = get_current_worker_task()
    return "" if task is None else str(task.request.id or "")[:STORED_LENGTH]
