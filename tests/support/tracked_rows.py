"""The rows of tracked tasks of a site, read beside its running processes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from tests.support.waiting import wait_until

Row = dict[str, Any]


def tracked_row(site: Any, task_id: str) -> Row | None:
    """Return the row of a task, with its checkpoint decoded; None if there is none."""
    with closing(
        sqlite3.connect(urlsplit(site.environment["DATABASE_URL"]).path[1:], timeout=20)
    ) as connection:
        connection.row_factory = sqlite3.Row
        found = connection.execute(
            "SELECT * FROM taskyard_trackedtask WHERE task_id = ?", (task_id,)
        ).fetchone()
    if found is None:
        return None
    row = dict(found)
    row["checkpoint"] = None if row["checkpoint"] is None else json.loads(row["checkpoint"])
    return row


def wait_for_row(
    site: Any, task_id: str, condition: Callable[[Row], Any], *, what: str, timeout_seconds: float = 20.0
) -> Row:
    """Return the row of a task as soon as the condition holds for it."""
    last: list[Row | None] = [None]

    def is_so() -> bool:
        last[0] = tracked_row(site, task_id)
        return last[0] is not None and bool(condition(last[0]))

    wait_until(is_so, timeout_seconds=timeout_seconds, what=f"the row of the task: {what}")
    assert last[0] is not None
    return last[0]
