"""The last step: what came of a run. Every number is counted in the tables, so that none is counted twice."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Sum

from tasks.imports.models import ImportChunk, ImportRun

_SHOWN_CHUNKS = 100


def build(run: ImportRun) -> dict[str, Any]:
    """Return the counts and the report of a run, as fields of `ImportRun`."""
    imported = run.chunks.aggregate(count=Sum("imported"))["count"] or 0
    by_kind = dict(run.rejected_rows.values_list("kind").annotate(Count("pk")).order_by("kind"))
    rejected = sum(by_kind.values())
    failed = run.chunks.filter(state=ImportChunk.State.FAILED)
    report = {
        "chunks": run.chunks.count(),
        "rejected_by_kind": by_kind,
        "failed_chunks": [
            {"start": chunk.start, "stop": chunk.stop, "error": chunk.error or "killed; see the dead letter"}
            for chunk in failed[:_SHOWN_CHUNKS]
        ],
        "rows_left": run.total - imported - rejected,
    }
    return {"imported": imported, "rejected": rejected, "report": report}
