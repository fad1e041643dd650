"""The rows of an import: a bad one is reported, the others are imported."""

from __future__ import annotations

from decimal import Decimal
from io import BytesIO

import pytest

from tasks.imports import services
from tasks.imports.csv_rows import RowReader
from tasks.imports.models import Product, RejectedRow
from tests.support.import_samples import GOOD, HEADER, import_all, planned_run, products, ranges

pytestmark = pytest.mark.usefixtures("media_root")


def rows_of(content: bytes):
    return list(RowReader(BytesIO(content)))


def test_rows_know_where_they_begin():
    content = '\ufeffa,b\r\n\r\n"two\nlines",ü\nlast,1'.encode()

    rows = rows_of(content)

    assert [(row.fields, row.line) for row in rows] == [
        (["a", "b"], 1),
        (["two\nlines", "ü"], 3),
        (["last", "1"], 5),
    ]
    for row in rows[1:]:
        assert next(RowReader(BytesIO(content), offset=row.offset, line=row.line)) == row


def test_what_is_no_csv_is_a_row_without_fields_and_the_next_one_is_read():
    rows = rows_of(b"a,b\nold\rmac,1\nc,d\n" + b'"' + b"x" * 140_000 + b"\n" + b"e,f\n")

    assert [row.fields for row in rows][:3] == [["a", "b"], None, ["c", "d"]]
    assert rows[3].fields is None


def test_a_file_without_line_ends_is_read_in_pieces():
    rows = rows_of(b"x," * 1_500_000)

    assert len(rows) == 3
    assert len({row.line for row in rows}) == 3


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("line", "kind", "reason"),
    [
        (b",Lamp,1.00,1", "missing_sku", "The SKU is missing."),
        (b"B,Lamp,free,1", "bad_price", "The price is 'free'. Write it like 12.50, without a currency."),
        (b"B,Lamp,NaN,1", "bad_price", "The price is 'NaN'."),
        (b'B,Lamp,"1,50",1', "bad_price", "The price is '1,50'."),
        (b"B,Lamp,1_0,1", "bad_price", "The price is '1_0'."),
        (b"B,Lamp,123456789.00,1", "bad_price", "The price is '123456789.00'."),
        (b"B,Lamp,-1.00,1", "bad_price", "The price is '-1.00'."),
        (b"B,Lamp,1.00,-4", "negative_stock", "The stock is -4. Give 0 or more."),
        (b"B,Lamp,1.00,many", "bad_stock", "The stock is 'many'. Give a whole number."),
        (b"B,Lamp,1.00", "column_count", "The row has 3 columns instead of 4."),
        (b"B,Lamp,1.00,1,x", "column_count", "The row has 5 columns instead of 4."),
        (b"B,Gr\xfcn,1.00,1", "encoding", "The row is not UTF-8. Save the file as CSV in UTF-8."),
        (b"B,,1.00,1", "bad_text", "The name has 0 characters. Give 1 to 200."),
        (b"B" * 65 + b",Lamp,1.00,1", "bad_text", "The SKU has 65 characters. Give 1 to 64."),
        (b"B,La\x00mp,1.00,1", "bad_text", "The name contains a NUL character. Remove it."),
        (b"A-1,Lamp again,1.00,1", "duplicate_sku", "The SKU 'A-1' is in line 2 already."),
    ],
)
def test_a_bad_row_is_recorded_and_the_others_are_imported(tmp_path, line, kind, reason):
    run = planned_run(tmp_path, HEADER + GOOD + line + b"\nC-3,Chair,0.99,0\n")

    import_all(run)

    row = RejectedRow.objects.get()
    assert (row.run, row.line, row.kind) == (run, 3, kind)
    assert row.reason.startswith(reason)
    assert row.raw == line.decode("utf-8", "backslashreplace").replace("\x00", "\\x00")
    assert list(Product.objects.values_list("sku", "name", "price", "stock")) == [
        ("A-1", "Lamp", Decimal("12.50"), 3),
        ("C-3", "Chair", Decimal("0.99"), 0),
    ]


@pytest.mark.django_db
@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_the_first_of_two_rows_wins_in_whatever_order_the_chunks_run(tmp_path, order):
    content = HEADER + products(3) + b"P-1,Later,9.00,9\n"
    run = planned_run(tmp_path, content)

    for place in order:
        services.import_chunk(run.pk, *ranges(run)[place])

    assert Product.objects.get(sku="P-1").name == "Thing 1"
    assert RejectedRow.objects.get().line == 5


@pytest.mark.django_db
def test_a_bad_row_does_not_take_the_sku_from_a_good_one(tmp_path):
    run = planned_run(tmp_path, HEADER + b"A-1,Lamp,free,1\nA-1,Lamp,1.00,1\n")

    import_all(run)

    assert Product.objects.get().price == Decimal("1.00")
    assert [row.kind for row in RejectedRow.objects.all()] == ["bad_price"]
