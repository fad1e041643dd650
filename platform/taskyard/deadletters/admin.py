"""Dead letters in the admin: to find and read."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html

from taskyard.deadletters.models import DeadLetter


@admin.register(DeadLetter)
class DeadLetterAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # generic in the stubs only
    """A read-only list, newest first, filtered by what an on-call engineer asks first."""

    list_display = ("at", "task_name", "queue", "reason", "short_error")
    list_filter = ("reason", "queue", "task_name", "created_at")
    search_fields = ("task_name", "task_id", "correlation_id", "error", "args", "kwargs")
    search_help_text = "Task, task id, correlation id, error or argument"
    date_hierarchy = "created_at"
    readonly_fields = ("at", "shown_error")
    fieldsets = (
        (None, {"fields": ("task_name", "reason", "at", "queue", "shown_error")}),
        ("What it was called with", {"fields": ("args", "kwargs", "priority", "retries")}),
        ("To find it elsewhere", {"fields": ("task_id", "correlation_id", "headers")}),
    )

    @admin.display(description="at (UTC)", ordering="created_at")
    def at(self, letter: DeadLetter) -> str:
        return f"{letter.created_at:%Y-%m-%d %H:%M:%S}"

    @admin.display(description="error")
    def shown_error(self, letter: DeadLetter) -> str:
        return format_html("<pre>{}</pre>", letter.traceback or letter.error)

    @admin.display(description="error")
    def short_error(self, letter: DeadLetter) -> str:
        first_line = letter.error.partition("\n")[0]
        return first_line if len(first_line) <= 100 else first_line[:99] + "\u2026"

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
