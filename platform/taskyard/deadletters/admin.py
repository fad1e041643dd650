"""Dead letters in the admin: to find and read."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from taskyard.deadletters.models import DeadLetter


@admin.register(DeadLetter)
class DeadLetterAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # generic in the stubs only
    """A read-only list, newest first, filtered by what an on-call engineer asks first."""

    list_display = ("created_at", "task_name", "queue", "reason", "short_error", "task_id")
    list_filter = ("reason", "queue", "task_name", "created_at")
    search_fields = ("task_name", "task_id", "correlation_id", "error")
    date_hierarchy = "created_at"

    @admin.display(description="error")
    def short_error(self, letter: DeadLetter) -> str:
        first_line = letter.error.partition("\n")[0]
        return first_line if len(first_line) <= 100 else first_line[:99] + "\u2026"

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
