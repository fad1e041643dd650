"""Whole imports: the counts are right, the end is written once, a failure is reported once."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.core.files.storage import default_storage

from tasks.imports import services, tasks
from tasks.imports.errors import InvalidFileError, ProductImportError
from tasks.imports.load import write_products_csv
from tasks.imports.models import ImportRun, Product, RejectedRow
from taskyard import Cancel, Snooze
from tests.support.import_samples import GOOD, HEADER, import_all, planned_run, products, ranges

pytestmark = pytest.mark.usefixtures("media_root")


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
