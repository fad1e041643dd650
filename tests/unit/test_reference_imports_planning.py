"""Before the first row of an import: a copy of the file, its header, chunks planned once."""

from __future__ import annotations

import hashlib

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from tasks.imports import planning, services, tasks
from tasks.imports.errors import InvalidFileError, SourceMissingError
from tasks.imports.models import ImportChunk, ImportRun, Product
from tests.support.import_samples import GOOD, HEADER, import_all, planned_run, products, ranges, run_of

pytestmark = pytest.mark.usefixtures("media_root")


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
