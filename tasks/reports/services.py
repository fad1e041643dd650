"""The nightly report: the orders and payments of one day as CSV."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import BinaryIO, cast

from django.core.files.storage import Storage, default_storage

from tasks.orders.models import Order, Payment
from tasks.reports.files import replace_file
from taskyard.clock import SYSTEM_CLOCK, Clock

COLUMNS = ("record", "id", "order", "moment", "amount_cents", "currency")
# A report above this is kept on disk while it is made.
MEMORY_BYTES = 1024 * 1024
CHUNK_SIZE = 2000


class UnfinishedDay(ValueError):
    """A day is not over yet, so its report would not be final."""


def build_report(day: date, *, storage: Storage | None = None, clock: Clock = SYSTEM_CLOCK) -> str:
    """Write the report of a day, and return its name in the storage.

    The same day gives the same bytes under the same name: only what never changes about an order or a payment
    is in it, sorted by id.

    Args:
        day: a day that is over, in UTC.
        storage: where to; Django's default storage when None.
        clock: says which days are over.

    Raises:
        UnfinishedDay: the day is not over yet.
    """
    today = clock.now().astimezone(UTC).date()
    if day >= today:
        raise UnfinishedDay(f"The day {day} is not over: it is {today} (UTC). Ask for an earlier day.")
    name = report_name(day)
    # Cast: the stubs make it a type of its own that is not a BinaryIO.
    with cast(BinaryIO, tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES)) as content:
        _write_csv(day, content)
        replace_file(default_storage if storage is None else storage, name, content)
    return name


def report_name(day: date) -> str:
    """Return the name of a day's report."""
    return f"reports/{day:%Y}/orders-{day.isoformat()}.csv"


def _write_csv(day: date, content: BinaryIO) -> None:
    text = io.TextIOWrapper(content, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(_rows(day))
    text.detach()  # flushes, and leaves the content open


def _rows(day: date) -> Iterator[tuple[object, ...]]:
    start = datetime.combine(day, time.min, tzinfo=UTC)
    within = {"created_at__gte": start, "created_at__lt": start + timedelta(days=1)}
    for order in Order.objects.filter(**within).order_by("pk").iterator(chunk_size=CHUNK_SIZE):
        yield ("order", order.pk, order.pk, _moment(order.created_at), order.amount_cents, order.currency)
    for paid in Payment.objects.filter(**within).order_by("pk").iterator(chunk_size=CHUNK_SIZE):
        yield ("payment", paid.pk, paid.order_id, _moment(paid.created_at), paid.amount_cents, paid.currency)


def _moment(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="microseconds")
