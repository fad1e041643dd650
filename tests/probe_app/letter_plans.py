"""How much of the tables PostgreSQL reads for what the pages and the command ask."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

from taskyard.deadletters import groups
from taskyard.deadletters.bulk_slices import _next_letters
from taskyard.deadletters.filters import DeadLetterFilter
from taskyard.deadletters.models import BulkReplay, DeadLetter, FaultCount
from taskyard.deadletters.retention import purge_resolved

TABLES = (DeadLetter._meta.db_table, FaultCount._meta.db_table)


def read_for(what: str, chosen: dict[str, Any]) -> dict[str, Any]:
    """Do it, and return how many statements that took and how many rows and index entries of each table."""
    ask: dict[str, Callable[[DeadLetterFilter], Any]] = {
        "list": lambda wanted: list(wanted.apply(DeadLetter.objects.order_by("-pk"), newest_first=True)[:50]),
        "groups": lambda wanted: groups.groups(wanted, limit=50),
        "count": groups.count_letters,
        "count_groups": groups.count_groups,
        "bulk": lambda wanted: _next_letters(_bulk_of(wanted), 30),
    }
    with CaptureQueriesContext(connection) as captured:
        found = ask[what](DeadLetterFilter.from_dict(chosen))
    read = dict.fromkeys(TABLES, 0)
    for query in captured:
        for table, rows in _rows_read(query["sql"]):
            read[table] += rows
    return {
        "found": found if isinstance(found, int) else len(found),
        "statements": len(captured),
        "letters": read[TABLES[0]],
        "faults": read[TABLES[1]],
    }


def purge_and_measure() -> dict[str, int]:
    """Purge, and return how many and how much the process has grown meanwhile, in MB."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    purged = purge_resolved(older_than=timedelta(days=1))
    return {
        "purged": purged,
        "grown_mb": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024,
    }


def _bulk_of(wanted: DeadLetterFilter) -> BulkReplay:
    """Return a bulk replay in the middle of its work."""
    return BulkReplay(filters=wanted.as_dict(), last_id=500_000, up_to_id=1_000_000)


def _rows_read(sql: str) -> Iterator[tuple[str, int]]:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}")
        answer = cursor.fetchone()[0]
    (plan,) = json.loads(answer) if isinstance(answer, str) else answer
    nodes = [plan["Plan"]]
    while nodes:
        node = nodes.pop()
        nodes += node.get("Plans", ())
        name = node.get("Relation Name")
        if name is None and "Index Name" in node:
            # the index half of a bitmap scan
            name = TABLES["fault" in node["Index Name"]]
        if name in TABLES:
            rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
            yield name, round(rows * node["Actual Loops"])
