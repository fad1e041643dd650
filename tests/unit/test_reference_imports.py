"""The reference pipeline: bad rows are reported, nothing is imported twice, one failure is reported."""

from __future__ import annotations

import hashlib
import random
import tracemalloc
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import OperationalError, connection

from tasks.imports import chunks, planning, services, tasks
from tasks.imports.csv_rows import RowReader
from tasks.imports.errors import ChunkMissingError, InvalidFileError, ProductImportError, SourceMissingError
from tasks.imports.load import write_products_csv
from tasks.imports.models import ImportChunk, ImportRun, Product, RejectedRow
from taskyard import Cancel, Snooze

HEADER = b"sku,name,price,stock\n"
GOOD = b"A-1,Lamp,12.50,3\n"


@pytest.fixture(autouse=True)
def media_root(settings, tmp_path):
    settings.MEDIA_ROOT = tmp_path / "media"


def run_of(tmp_path, content: bytes, name: str = "products.csv") -> ImportRun:
    path = tmp_path / name
    path.write_bytes(content)
    return ImportRun.objects.create(source=str(path))


def planned_run(tmp_path, content: bytes) -> ImportRun:
    run = run_of(tmp_path, content)
    tasks.fetch_file(run.pk)
    services.validate_file(run.pk, chunk_rows=3)
    run.refresh_from_db()
    return run


def ranges(run: ImportRun) -> list[tuple[int, int]]:
    return list(run.chunks.values_list("start", "stop"))


def import_all(run: ImportRun) -> None:
    for start, stop in ranges(run):
        services.import_chunk(run.pk, start, stop)


def products(count: int) -> bytes:
    return b"".join(f"P-{number},Thing {number},{number}.00,{number}\n".encode() for number in range(count))


# Reading


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


# Fetching


@pytest.mark.django_db
def test_the_run_gets_a_copy_that_outlives_the_source(tmp_path):
    run = run_of(tmp_path, HEADER + GOOD)

    tasks.fetch_file(run.pk)
    (tmp_path / "products.csv").unlink()
    tasks.fetch_file(run.pk)  # a redelivery does not miss the source

    run.refresh_from_db()
    assert run.state == "fetched"
    assert run.file.read() == HEADER + GOOD
    assert run.checksum == hashlib.sha256(HEADER + GOOD).hexdigest()
    assert run.started_at is not None


@pytest.mark.django_db
def test_the_source_may_be_in_the_storage():
    name = default_storage.save("uploads/p.csv", ContentFile(HEADER + GOOD))
    run = ImportRun.objects.create(source=name)

    tasks.fetch_file(run.pk)

    run.refresh_from_db()
    assert run.file.name != name
    assert run.file.read() == HEADER + GOOD


@pytest.mark.django_db
def test_of_two_fetches_at_once_one_copy_stays(tmp_path):
    run = run_of(tmp_path, HEADER + GOOD)
    stale = ImportRun.objects.get(pk=run.pk)
    tasks.fetch_file(run.pk)

    services.fetching.fetch(stale, services.SYSTEM_CLOCK)

    assert default_storage.listdir(f"imports/{run.pk}")[1] == ["source.csv"]
    assert ImportRun.objects.get().file.name == f"imports/{run.pk}/source.csv"


@pytest.mark.django_db
@pytest.mark.parametrize("source", ["/nowhere/products.csv", "nowhere.csv", "../../etc/passwd", "/"])
def test_a_missing_source_is_final(source):
    run = ImportRun.objects.create(source=source)

    with pytest.raises(SourceMissingError, match="The file to import cannot be read") as raised:
        tasks.fetch_file(run.pk)

    assert not tasks.fetch_file.retry_policy.matches(raised.value)
    assert ImportRun.objects.get().error == f"SourceMissingError: {raised.value}"


# Planning


@pytest.mark.django_db
def test_chunks_are_planned_once(tmp_path):
    run = planned_run(tmp_path, HEADER + products(7))
    first = list(run.chunks.values())

    planning.plan(ImportRun(pk=run.pk, state="fetched", file=run.file, checksum=run.checksum), chunk_rows=3)
    services.validate_file(run.pk)

    assert (run.state, run.total) == ("planned", 7)
    assert ranges(run) == [(0, 3), (3, 6), (6, 7)]
    assert [chunk["line"] for chunk in first] == [2, 5, 8]
    assert list(run.chunks.values()) == first


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"", ""),
        (b"name,sku\n", "name, sku"),
        ("sku,name,price,stock\n".encode("utf-16"), ""),
        (b"\x89PNG\r\n\x1a\n\x00\x00", ""),
        (b"sku;name;price;stock\n", "sku;name;price;stock"),
    ],
)
def test_a_file_with_another_header_is_refused_for_good(tmp_path, content, shown):
    run = run_of(tmp_path, content)
    tasks.fetch_file(run.pk)

    with pytest.raises(InvalidFileError) as raised:
        tasks.validate_file(run.pk)

    assert f"The file begins with the columns '{shown}" in str(raised.value)
    assert "Save it as CSV in UTF-8 with the header 'sku,name,price,stock'." in str(raised.value)
    assert not tasks.validate_file.retry_policy.matches(raised.value)
    assert ImportRun.objects.get().error == f"InvalidFileError: {raised.value}"
    assert not ImportChunk.objects.exists()


@pytest.mark.django_db
def test_a_byte_order_mark_and_capitals_in_the_header_are_no_problem(tmp_path):
    run = planned_run(tmp_path, b"\xef\xbb\xbfSKU, Name,price ,Stock\r\n" + GOOD)

    import_all(run)

    assert Product.objects.get().sku == "A-1"


@pytest.mark.django_db
def test_a_copy_that_has_changed_is_refused(tmp_path):
    run = run_of(tmp_path, HEADER + GOOD)
    tasks.fetch_file(run.pk)
    run.refresh_from_db()
    with default_storage.open(run.file.name, "wb") as file:
        file.write(HEADER)

    with pytest.raises(InvalidFileError, match="its checksum differs"):
        services.validate_file(run.pk)


# Rows


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


# Chunks


@pytest.mark.django_db
def test_existing_products_are_updated(tmp_path):
    Product.objects.create(
        sku="A-1", name="Old", price=Decimal("1.00"), stock=0, updated_at=datetime(2020, 1, 1, tzinfo=UTC)
    )
    run = planned_run(tmp_path, HEADER + GOOD)

    import_all(run)

    product = Product.objects.get()
    assert (product.name, product.price, product.stock) == ("Lamp", Decimal("12.50"), 3)
    assert product.updated_at.year > 2020


@pytest.mark.django_db
def test_a_chunk_that_runs_again_changes_nothing(tmp_path):
    run = planned_run(tmp_path, HEADER + products(2) + b"bad\n")
    import_all(run)
    Product.objects.filter(sku="P-0").update(name="from a newer import")

    tasks.import_chunk(run.pk, 0, 3)

    assert Product.objects.get(sku="P-0").name == "from a newer import"
    assert (Product.objects.count(), RejectedRow.objects.count()) == (2, 1)
    assert run.chunks.get().imported == 2


@pytest.mark.django_db
def test_late_redeliveries_do_not_need_the_copy_any_more(tmp_path):
    run = planned_run(tmp_path, HEADER + GOOD)
    import_all(run)
    services.summarise(run.pk)
    default_storage.delete(run.file.name)

    tasks.fetch_file(run.pk)
    tasks.validate_file(run.pk)
    tasks.import_chunk(run.pk, 0, 1)
    tasks.summarise(run.pk)

    assert ImportRun.objects.get().state == "done"


@pytest.mark.django_db
def test_of_two_runs_of_a_chunk_at_once_one_has_an_effect(tmp_path):
    run = planned_run(tmp_path, HEADER + GOOD)
    chunk = run.chunks.get()  # as both have read it
    chunks.import_rows(run, chunk, now=datetime(2026, 1, 1, tzinfo=UTC))

    chunks.import_rows(run, chunk, now=datetime(2026, 1, 2, tzinfo=UTC))

    assert Product.objects.get().updated_at == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.django_db
def test_a_chunk_is_imported_whole_or_not_at_all(tmp_path):
    run = planned_run(tmp_path, HEADER + products(2) + b"bad\n")

    def fail_at_the_rejected_rows(execute, sql, *rest):
        if "imports_rejectedrow" in sql and sql.startswith("INSERT"):
            raise OperationalError("disk full")
        return execute(sql, *rest)

    with connection.execute_wrapper(fail_at_the_rejected_rows), pytest.raises(OperationalError) as raised:
        services.import_chunk(run.pk, 0, 3)

    assert tasks.import_chunk.retry_policy.matches(raised.value)
    assert not Product.objects.exists()
    chunk = run.chunks.get()
    assert (chunk.state, chunk.error) == ("planned", "OperationalError: disk full")
    import_all(run)
    chunk.refresh_from_db()
    assert (chunk.state, chunk.error, chunk.imported) == ("done", "", 2)


@pytest.mark.django_db
def test_a_chunk_that_was_never_planned_is_final(tmp_path):
    run = planned_run(tmp_path, HEADER + GOOD)

    with pytest.raises(ChunkMissingError, match=f"Import {run.pk} has no chunk of the rows 5 to 9") as raised:
        tasks.import_chunk(run.pk, 5, 9)

    assert not tasks.import_chunk.retry_policy.matches(raised.value)


@pytest.mark.django_db
def test_a_copy_that_was_cut_later_is_noticed(tmp_path):
    run = planned_run(tmp_path, HEADER + products(3))
    with default_storage.open(run.file.name, "wb") as file:
        file.write(HEADER + products(2))

    with pytest.raises(InvalidFileError, match="ends before row 3"):
        services.import_chunk(run.pk, 0, 3)

    assert not Product.objects.exists()


# The whole pipeline


@pytest.mark.django_db
def test_the_counts_are_what_the_file_promises(tmp_path):
    path = tmp_path / "products.csv"
    expected = write_products_csv(path, 5000, random.Random(3))
    run = ImportRun.objects.create(source=str(path))

    tasks.fetch_file(run.pk)
    services.validate_file(run.pk)
    services.note_chunks_started(run.pk)
    assert ImportRun.objects.get().state == "importing"
    import_all(run)
    tasks.summarise(run.pk)

    run.refresh_from_db()
    assert (run.state, run.total, run.imported, run.rejected) == (
        "done",
        5000,
        expected.imported,
        expected.rejected,
    )
    assert run.report == {
        "chunks": 5,
        "rejected_by_kind": dict(expected.rejected_by_kind),
        "failed_chunks": [],
        "rows_left": 0,
    }
    assert Product.objects.count() == expected.imported
    assert set(expected.rejected_by_kind) == set(RejectedRow.Kind.values)
    assert run.finished_at >= run.started_at


@pytest.mark.django_db
def test_a_file_without_rows_is_an_import_of_nothing(tmp_path):
    run = planned_run(tmp_path, HEADER)

    assert services.chunks_to_start(run.pk) == []
    assert services.summarise(run.pk) is True
    assert ImportRun.objects.get().state == "done"


@pytest.mark.django_db
def test_chunks_are_started_once(tmp_path):
    run = planned_run(tmp_path, HEADER + products(4))

    assert services.chunks_to_start(run.pk) == [(0, 3), (3, 4)]
    assert services.chunks_to_start(run.pk) == [(0, 3), (3, 4)]  # killed before the note: again
    services.note_chunks_started(run.pk)
    assert services.chunks_to_start(run.pk) is None
    tasks.start_chunks(run.pk)  # publishes nothing: there is no broker here


@pytest.mark.django_db
def test_a_summary_waits_for_the_last_chunk_and_is_written_once(tmp_path):
    run = planned_run(tmp_path, HEADER + products(4))
    services.import_chunk(run.pk, 0, 3)

    with pytest.raises(Snooze, match="1 chunks of import"):
        tasks.summarise(run.pk)
    services.import_chunk(run.pk, 3, 4)

    assert services.summarise(run.pk) is True
    first = ImportRun.objects.values().get()
    assert services.summarise(run.pk) is False
    assert ImportRun.objects.values().get() == first


@pytest.mark.django_db
def test_a_note_that_comes_after_the_summary_does_not_reopen_the_run(tmp_path):
    run = planned_run(tmp_path, HEADER + GOOD)
    import_all(run)
    services.summarise(run.pk)

    services.note_chunks_started(run.pk)

    assert ImportRun.objects.get().state == "done"


# Failure


@pytest.mark.django_db
def test_a_failure_is_reported_once_with_what_was_and_was_not_imported(tmp_path):
    run = planned_run(tmp_path, HEADER + products(2) + b"bad\n" + products(5)[-30:])
    start, stop = ranges(run)[0]
    services.import_chunk(run.pk, start, stop)
    with default_storage.open(run.file.name, "r+b") as file:
        file.truncate(60)
    failing = ranges(run)[1:]
    for start, stop in failing:
        with pytest.raises(InvalidFileError):
            services.import_chunk(run.pk, start, stop)

    reported = [services.report_failure(run.pk) for _ in range(3)]

    assert reported == [True, False, False]
    run.refresh_from_db()
    assert (run.state, run.imported, run.rejected) == ("failed", 2, 1)
    assert [(chunk["start"], chunk["stop"]) for chunk in run.report["failed_chunks"]] == failing
    assert all("ends before row" in chunk["error"] for chunk in run.report["failed_chunks"])
    assert run.report["rows_left"] == run.total - 3


@pytest.mark.django_db
def test_a_chunk_whose_process_was_killed_is_in_the_report(tmp_path):
    run = planned_run(tmp_path, HEADER + GOOD)

    services.report_failure(run.pk)

    run.refresh_from_db()
    assert run.report["failed_chunks"] == [{"start": 0, "stop": 1, "error": "killed; see the dead letter"}]


@pytest.mark.django_db
def test_a_failure_after_the_summary_is_none(tmp_path):
    run = planned_run(tmp_path, HEADER + GOOD)
    import_all(run)
    services.summarise(run.pk)

    assert services.report_failure(run.pk) is False
    assert ImportRun.objects.get().state == "done"


@pytest.mark.django_db
def test_a_failed_run_can_be_healed_by_replaying_its_chunks(tmp_path):
    run = planned_run(tmp_path, HEADER + products(4))
    services.import_chunk(run.pk, 0, 3)
    services.report_failure(run.pk)
    assert services.can_be_healed(run.pk) is False

    services.import_chunk(run.pk, 3, 4)

    assert services.can_be_healed(run.pk) is True
    assert services.summarise(run.pk) is True
    run.refresh_from_db()
    assert (run.state, run.imported, run.report["failed_chunks"]) == ("done", 4, [])
    assert services.can_be_healed(run.pk) is False


@pytest.mark.django_db
def test_a_deleted_run_is_cancelled():
    for step in (tasks.fetch_file, tasks.validate_file, tasks.summarise):
        with pytest.raises(Cancel, match="import 99 no longer exists"):
            step(99)
    with pytest.raises(Cancel):
        tasks.import_chunk(99, 0, 1)
    assert services.report_failure(99) is False


def test_every_step_is_on_the_bulk_queue_and_the_chord_gets_its_results():
    steps = (tasks.fetch_file, tasks.validate_file, tasks.import_chunk, tasks.summarise, tasks.report_failure)

    assert {step.queue for step in steps} == {"bulk"}
    assert tasks.import_chunk.ignore_result is False
    assert tasks.import_chunk.retry_policy.matches(SoftTimeLimitExceeded())
    assert not tasks.import_chunk.retry_policy.matches(ProductImportError())


# The demo's input


def test_the_file_is_written_row_by_row(tmp_path):
    tracemalloc.start()
    expected = write_products_csv(tmp_path / "p.csv", 20_000, random.Random(1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    size = (tmp_path / "p.csv").stat().st_size
    assert size > 600_000
    assert peak < size / 2
    assert 50 < expected.rejected < 150
    assert expected.total == 20_000
    again = write_products_csv(tmp_path / "q.csv", 20_000, random.Random(1))
    assert (tmp_path / "q.csv").read_bytes() == (tmp_path / "p.csv").read_bytes()
    assert again == expected
