"""The chunks of an import: whole or not at all, and once however often they run."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.core.files.storage import default_storage
from django.db import OperationalError, connection

from tasks.imports import chunks, services, tasks
from tasks.imports.errors import ChunkMissingError, InvalidFileError
from tasks.imports.models import ImportRun, Product, RejectedRow
from tests.support.import_samples import GOOD, HEADER, import_all, planned_run, products

pytestmark = pytest.mark.usefixtures("media_root")


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
