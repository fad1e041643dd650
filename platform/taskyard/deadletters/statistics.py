"""What PostgreSQL knows of the table: it has to be told after many rows have changed at once."""

from __future__ import annotations

from django.db import connections, router

from taskyard.deadletters.models import DeadLetter

# A part of a large table this size does not make PostgreSQL look by itself.
MANY = 10_000


def refresh(changed: int) -> None:
    """Have the table looked at again, if so many changes are many.

    Until then, PostgreSQL takes what was purged or discarded to be there: a list of what there is none of any
    more reads every row, because one of its first pages is believed to be full.
    """
    connection = connections[router.db_for_write(DeadLetter)]
    if changed < MANY or connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {connection.ops.quote_name(DeadLetter._meta.db_table)}")
