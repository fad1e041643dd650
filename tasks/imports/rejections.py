"""Rejected rows on their way into the table."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from tasks.imports.csv_rows import Row
from tasks.imports.errors import RowError
from tasks.imports.models import RejectedRow

_RAW_LENGTH = 1000
_BATCH = 500


def rejected_row(run_id: int, row: Row, error: RowError) -> RejectedRow:
    """Return the record of a row that is not imported."""
    return RejectedRow(
        run_id=run_id, line=row.line, kind=error.kind, reason=error.reason[:300], raw=_storable(row.raw)
    )


def store(rejected: Iterable[RejectedRow]) -> int:
    """Store rejected rows, a batch at a time, and return how many they are.

    Storing the same rows again changes nothing.
    """
    count, remaining = 0, iter(rejected)
    while batch := list(islice(remaining, _BATCH)):
        RejectedRow.objects.bulk_create(
            batch,
            update_conflicts=True,
            unique_fields=["run", "line"],
            update_fields=["kind", "reason", "raw"],
        )
        count += len(batch)
    return count


def _storable(raw: str) -> str:
    """Return the text of a row as every database takes it: no lone surrogates, no NUL, not endless."""
    content = raw[:_RAW_LENGTH].encode("utf-8", "surrogateescape")
    return content.decode("utf-8", "backslashreplace").replace("\x00", "\\x00").rstrip("\r\n")
