"""The second step: the file is read from end to end, and cut into chunks for many workers."""

from __future__ import annotations

from collections.abc import Iterator

from django.db import transaction

from tasks.imports import rejections
from tasks.imports.csv_rows import RowReader
from tasks.imports.errors import InvalidFileError, RowError
from tasks.imports.fetching import checksum_of
from tasks.imports.models import ImportChunk, ImportRun, RejectedRow
from tasks.imports.products import COLUMNS, is_header, parse_product

CHUNK_ROWS = 1000


def plan(run: ImportRun, *, chunk_rows: int = CHUNK_ROWS) -> None:
    """Check the file and plan its chunks.

    A second planning of the same run changes nothing, also while its chunks are being imported.

    Args:
        run: has its copy of the file.
        chunk_rows: rows of one chunk, which one task imports in one transaction.

    Raises:
        InvalidFileError: the file has another header or is not the one that was fetched.
    """
    if run.state != ImportRun.State.FETCHED:
        return
    if run.file.name is None or checksum_of(run.file.name) != run.checksum:
        raise InvalidFileError(
            f"The copy {run.file.name!r} is not what was fetched: its checksum differs. Start a new import."
        )
    planner = Planner(run.pk, chunk_rows=chunk_rows)
    with run.file.open("rb") as file:
        rejections.store(planner.duplicates(_rows_after_header(RowReader(file))))
    with transaction.atomic():
        ImportChunk.objects.bulk_create(planner.chunks, ignore_conflicts=True)
        ImportRun.objects.filter(pk=run.pk, state=ImportRun.State.FETCHED).update(
            state=ImportRun.State.PLANNED, total=planner.total, error=""
        )


def _rows_after_header(reader: RowReader) -> RowReader:
    header = next(reader, None)
    if not is_header(header):
        shown = ", ".join((header.fields if header else None) or [])[:100]
        raise InvalidFileError(
            f"The file begins with the columns {shown!r}. "
            f"Save it as CSV in UTF-8 with the header {','.join(COLUMNS)!r}."
        )
    return reader


class Planner:
    """Cuts a file into chunks, and finds the SKUs that come a second time.

    Duplicates are found here, in file order, since chunks run side by side: which of two rows wins must not
    depend on which worker is faster. That needs every SKU in memory, about 150 bytes each.
    """

    def __init__(self, run_id: int, *, chunk_rows: int) -> None:
        self.total = 0
        self.chunks: list[ImportChunk] = []
        self._run_id, self._chunk_rows = run_id, chunk_rows
        self._line_by_sku: dict[str, int] = {}

    def duplicates(self, rows: RowReader) -> Iterator[RejectedRow]:
        """Read all rows, plan the chunks on the way, and yield the rows whose SKU an earlier good row has."""
        for index, row in enumerate(rows):
            self._add_to_chunk(index, row.offset, row.line)
            try:
                sku = parse_product(row).sku
            except RowError:
                continue  # its chunk records it
            first_line = self._line_by_sku.setdefault(sku, row.line)
            if first_line != row.line:
                reason = f"The SKU {sku!r} is in line {first_line} already."
                yield rejections.rejected_row(
                    self._run_id, row, RowError(RejectedRow.Kind.DUPLICATE_SKU, reason)
                )

    def _add_to_chunk(self, index: int, offset: int, line: int) -> None:
        self.total = index + 1
        if index % self._chunk_rows == 0:
            self.chunks.append(ImportChunk(run_id=self._run_id, start=index, offset=offset, line=line))
        self.chunks[-1].stop = index + 1
