"""The steps of an import. Each may be killed or run twice; nothing is imported or counted twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import structlog
from django.db import DatabaseError, transaction
from django.db.models import QuerySet

from tasks.imports import chunks, fetching, planning, summaries
from tasks.imports.errors import ChunkMissingError
from tasks.imports.models import ImportChunk, ImportRun
from taskyard import Cancel, Snooze
from taskyard.clock import SYSTEM_CLOCK, Clock

log = structlog.stdlib.get_logger(__name__)

# A summary that comes before its last chunk looks again after this.
SUMMARY_PAUSE_SECONDS = 5


def start_import(source: Path | str) -> ImportRun:
    """Store a run and publish its pipeline, after the commit of the surrounding transaction.

    Args:
        source: an absolute path that the workers see, or a name in the default storage.
    """
    from tasks.imports.tasks import start_pipeline  # which imports this module

    with transaction.atomic():
        run = ImportRun.objects.create(source=str(source))
        start_pipeline(run.pk)
    return run


def fetch_file(run_id: int, *, clock: Clock = SYSTEM_CLOCK) -> None:
    """Give the run its own copy of the file; see `fetching.fetch`."""
    run = _find_run(run_id)
    with _noting_errors(ImportRun.objects.filter(pk=run_id)):
        fetching.fetch(run, clock)


def validate_file(run_id: int, *, chunk_rows: int = planning.CHUNK_ROWS) -> None:
    """Check the file and plan its chunks; see `planning.plan`."""
    run = _find_run(run_id)
    with _noting_errors(ImportRun.objects.filter(pk=run_id)):
        planning.plan(run, chunk_rows=chunk_rows)


def chunks_to_start(run_id: int) -> list[tuple[int, int]] | None:
    """Return the chunks of a run as pairs of start and stop, or None where they were started before."""
    run = _find_run(run_id)
    if run.state != ImportRun.State.PLANNED:
        return None
    return list(run.chunks.values_list("start", "stop"))


def note_chunks_started(run_id: int) -> None:
    """Note that the chunks are published; a worker may have finished them by now."""
    ImportRun.objects.filter(pk=run_id, state=ImportRun.State.PLANNED).update(state=ImportRun.State.IMPORTING)


def import_chunk(run_id: int, start: int, stop: int, *, clock: Clock = SYSTEM_CLOCK) -> None:
    """Import the rows `start` to `stop` (without the last), whole or not at all.

    A done chunk is left alone: a late redelivery must not put old values over those of a newer import.

    Raises:
        ChunkMissingError: no such chunk was planned.
        InvalidFileError: the file has become shorter.
        Cancel: the run is gone.
    """
    run = _find_run(run_id)
    chunk = ImportChunk.objects.filter(run=run, start=start, stop=stop).first()
    if chunk is None:
        raise ChunkMissingError(
            f"Import {run_id} has no chunk of the rows {start} to {stop}. Start a new import."
        )
    if chunk.state == ImportChunk.State.DONE:
        log.info("chunk is done already", run_id=run_id, start=start)
        return
    with _noting_errors(chunks.unfinished(run_id).filter(pk=chunk.pk)):
        chunks.import_rows(run, chunk, now=clock.now())


def can_be_healed(run_id: int) -> bool:
    """Return whether a run that failed has all its chunks now, since its dead letters were replayed."""
    failed = ImportRun.objects.filter(pk=run_id, state=ImportRun.State.FAILED, chunks__isnull=False)
    return failed.exists() and not chunks.unfinished(run_id).exists()


def summarise(run_id: int, *, clock: Clock = SYSTEM_CLOCK) -> bool:
    """Write the summary of a run whose chunks are all done.

    Returns:
        False where that was done before.

    Raises:
        Snooze: a chunk is not done yet.
        Cancel: the run is gone.
    """
    run = _find_run(run_id)
    if missing := chunks.unfinished(run_id).count():
        raise Snooze(SUMMARY_PAUSE_SECONDS, f"{missing} chunks of import {run_id} are not done")
    summary = summaries.build(run)
    # Of two at once, one finds the state changed.
    is_first = (
        ImportRun.objects.filter(pk=run_id)
        .exclude(state=ImportRun.State.DONE)
        .update(state=ImportRun.State.DONE, finished_at=clock.now(), **summary)
    )
    if is_first:
        log.info("import done", run_id=run_id, imported=summary["imported"], rejected=summary["rejected"])
    return bool(is_first)


def report_failure(run_id: int, *, clock: Clock = SYSTEM_CLOCK) -> bool:
    """Close a run that cannot go on: what was imported, what was not, and why.

    However often it is called for a run, it has its effect once.

    Returns:
        False where the failure was reported before, or there is none.
    """
    with transaction.atomic():
        is_first = (
            ImportRun.objects.filter(pk=run_id, failure_reported_at__isnull=True)
            .exclude(state=ImportRun.State.DONE)
            .update(failure_reported_at=clock.now(), finished_at=clock.now(), state=ImportRun.State.FAILED)
        )
        if not is_first:
            return False
        chunks.unfinished(run_id).update(state=ImportChunk.State.FAILED)
        summary = summaries.build(_find_run(run_id))
        ImportRun.objects.filter(pk=run_id).update(**summary)
    log.error("import failed", run_id=run_id, **summary)
    return True


@contextmanager
def _noting_errors(rows: QuerySet[Any]) -> Iterator[None]:
    """Keep what an attempt failed of, for the report; whether it was the last one is not known here."""
    try:
        yield
    except Exception as error:
        with suppress(DatabaseError):
            rows.update(error=f"{type(error).__name__}: {error}")
        raise


def _find_run(run_id: int) -> ImportRun:
    run = ImportRun.objects.filter(pk=run_id).first()
    if run is None:
        raise Cancel(f"import {run_id} no longer exists")
    return run
