"""The tasks of an import, and how they hang together.

    fetch_file -> validate_file -> import_chunk, many side by side -> summarise
         └──────────────┴──────────────────┴──────────────────────────────┴──> report_failure, in effect once

How many chunks there are is known after `validate_file` only, so that task publishes the chord. It does so
before it notes that it has: killed in between, it runs again and publishes a second chord, whose chunks find
themselves done and whose summary finds itself written. The other way round, the import would stand still.
"""

from __future__ import annotations

from typing import Any

from celery import chain, chord, shared_task

from tasks.imports import services
from tasks.imports.errors import ProductImportError
from taskyard import Exponential

# Our own errors are about the file; what is left (database, storage, broker) heals.
RETRY = Exponential(max_retries=5, never_on=(ProductImportError,))


@shared_task(
    name="imports.fetch_file",
    queue="bulk",
    retry=RETRY,
    idempotent="natural",
    idempotent_reason="A run that has its copy keeps it.",
)
def fetch_file(run_id: int) -> None:
    """Copy the source into the run's own file."""
    services.fetch_file(run_id)


@shared_task(
    name="imports.validate_file",
    queue="bulk",
    retry=RETRY,
    idempotent="natural",
    idempotent_reason="Chunks are planned once; a second chord finds them done.",
)
def validate_file(run_id: int) -> None:
    """Check the file, plan its chunks and start them."""
    services.validate_file(run_id)
    start_chunks(run_id)


@shared_task(
    name="imports.import_chunk",
    queue="bulk",
    retry=RETRY,
    idempotent="natural",
    idempotent_reason="A chunk and the note that it is done are one transaction; a done one is left alone.",
    # not every result backend counts the parts of a chord without their results
    ignore_result=False,
)
def import_chunk(run_id: int, start: int, stop: int) -> None:
    """Import a range of rows."""
    services.import_chunk(run_id, start, stop)
    if services.can_be_healed(run_id):
        summarise.delay(run_id)


@shared_task(
    name="imports.summarise",
    queue="bulk",
    retry=RETRY,
    idempotent="natural",
    idempotent_reason="Written by a conditional update.",
)
def summarise(run_id: int) -> None:
    """Write the summary of the run."""
    services.summarise(run_id)


@shared_task(
    name="imports.report_failure",
    queue="bulk",
    retry=RETRY,
    idempotent="natural",
    idempotent_reason="Written by a conditional update, by the first of all calls.",
)
def report_failure(run_id: int) -> None:
    """Report that the run failed."""
    services.report_failure(run_id)


def start_pipeline(run_id: int) -> None:
    """Publish the first steps of a run."""
    chain(_step(fetch_file, run_id), _step(validate_file, run_id)).apply_async()


def start_chunks(run_id: int) -> None:
    """Publish the chunks of a run and its summary, unless that was done before."""
    ranges = services.chunks_to_start(run_id)
    if ranges is None:
        return
    summary = _step(summarise, run_id)
    if ranges:
        # The failure of a part is reported through the body of the chord, after all parts have ended.
        chord([import_chunk.si(run_id, start, stop) for start, stop in ranges], summary).apply_async()
    else:
        summary.apply_async()
    services.note_chunks_started(run_id)


def _step(task: Any, run_id: int) -> Any:
    """Return a step that takes no result from the one before and reports its final failure."""
    return task.si(run_id).on_error(report_failure.si(run_id))
