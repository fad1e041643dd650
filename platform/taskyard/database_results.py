"""Results in the Django database that show no marked argument.

A module of its own: it imports models, which the backends on Redis must not wait for.
"""

from __future__ import annotations

from typing import Any

from django_celery_results.backends import database as django_database

from taskyard.tasks.redaction import representation
from taskyard.tasks.stored_results import shown_arguments, shown_outcome


class DatabaseBackend(django_database.DatabaseBackend):
    """Results in the table of django-celery-results."""

    def _store_result(
        self,
        task_id: Any,
        result: Any,
        status: str,
        traceback: Any = None,
        request: Any = None,
        using: Any = None,
    ) -> Any:
        shown, traceback = shown_outcome(request, self.app, status, result, traceback)
        super()._store_result(task_id, shown, status, traceback, request, using)
        return result

    def _get_extended_properties(self, request: Any, traceback: Any) -> Any:
        properties = super()._get_extended_properties(request, traceback)
        shown = shown_arguments(request, self.app)
        if shown is not None and properties["task_args"] is not None:
            args, kwargs = shown
            properties["task_args"] = self.encode_content(representation(tuple(args)))[2]
            properties["task_kwargs"] = self.encode_content(representation(kwargs))[2]
        return properties
