"""What a probe console can be asked about long tasks and cancellation."""

from __future__ import annotations

import io
from typing import Any

from django.core.management import call_command

import taskyard


def cancel(task_id: str) -> dict[str, Any]:
    """Cancel a task from a process of the project."""
    return taskyard.cancel(task_id, by="console", reason="a test").as_dict()


def cancel_in_transaction(task_id: str) -> dict[str, Any]:
    """Cancel a task inside a transaction that rolls back."""
    from django.db import transaction

    outcome: dict[str, Any] = {}
    with transaction.atomic():
        outcome = taskyard.cancel(task_id, by="console", reason="a test").as_dict()
        transaction.set_rollback(True)
    return outcome


def manage(words: list[str]) -> str:
    """Run a management command, and return what it has written."""
    written = io.StringIO()
    call_command(*words, stdout=written)
    return written.getvalue()
