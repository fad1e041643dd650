"""The third step, many times side by side: one range of rows, whole or not at all."""

from __future__ import annotations

from datetime import datetime
from itertools import islice

from django.db import transaction
from django.db.models import QuerySet

from tasks.imports import rejections
from tasks.imports.csv_rows import RowReader
from tasks.imports.errors import InvalidFileError, RowError
from tasks.imports.models import ImportChunk, ImportRun, Product, RejectedRow
from tasks.imports.products import ParsedProduct, parse_product

_BATCH = 500
_CHANGED_FIELDS = ["name", "price", "stock", "updated_at"]


def unfinished(run_id: int) -> QuerySet[ImportChunk]:
    """Return the chunks of a run that are not done."""
    return ImportChunk.objects.filter(run_id=run_id).exclude(state=ImportChunk.State.DONE)


def import_rows(run: ImportRun, chunk: ImportChunk, *, now: datetime) -> None:
    """Write the products and the rejected rows of a chunk in one transaction.

    Raises:
        InvalidFileError: the file has become shorter.
    """
    parsed, rejected = _read(run, chunk)
    # In the same order everywhere: two imports that meet in the same products wait, and do not deadlock.
    products = [
        Product(sku=product.sku, name=product.name, price=product.price, stock=product.stock, updated_at=now)
        for product in sorted(parsed.values(), key=lambda product: product.sku)
    ]
    with transaction.atomic():
        is_first = (
            unfinished(run.pk)
            .filter(pk=chunk.pk)
            .update(state=ImportChunk.State.DONE, imported=len(products), error="")
        )
        # The update locks the row: a second run of the same chunk waits here, and finds it done.
        if not is_first:
            return
        Product.objects.bulk_create(
            products,
            batch_size=_BATCH,
            update_conflicts=True,
            unique_fields=["sku"],
            update_fields=_CHANGED_FIELDS,
        )
        rejections.store(rejected)


def _read(run: ImportRun, chunk: ImportChunk) -> tuple[dict[int, ParsedProduct], list[RejectedRow]]:
    """Return the good rows by line, and the bad ones."""
    parsed: dict[int, ParsedProduct] = {}
    rejected: list[RejectedRow] = []
    with run.file.open("rb") as file:
        for row in islice(RowReader(file, offset=chunk.offset, line=chunk.line), chunk.stop - chunk.start):
            try:
                parsed[row.line] = parse_product(row)
            except RowError as error:
                rejected.append(rejections.rejected_row(run.pk, row, error))
    if len(parsed) + len(rejected) != chunk.stop - chunk.start:
        raise InvalidFileError(
            f"The copy {run.file.name!r} ends before row {chunk.stop}. It was cut after it was checked; "
            "start a new import."
        )
    for line in _duplicate_lines(run, parsed):
        parsed.pop(line, None)
    return parsed, rejected


def _duplicate_lines(run: ImportRun, parsed: dict[int, ParsedProduct]) -> list[int]:
    """Return the lines that the planning has rejected, because an earlier row has their SKU."""
    if not parsed:
        return []
    duplicates = RejectedRow.objects.filter(run=run, kind=RejectedRow.Kind.DUPLICATE_SKU)
    return list(duplicates.filter(line__range=(min(parsed), max(parsed))).values_list("line", flat=True))
