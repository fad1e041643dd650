"""Imports in the admin: runs with their report, rejected rows, products."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from tasks.imports.models import ImportChunk, ImportRun, Product, RejectedRow


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # generic in the stubs only
    """What the pipeline writes is read here, not changed."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        # A path that a form names would be read by the workers.
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(ImportRun)
class ImportRunAdmin(ReadOnlyAdmin):
    """The runs, newest first."""

    list_display = (
        "id",
        "source",
        "state",
        "progress",
        "total",
        "imported",
        "rejected",
        "started_at",
        "finished_at",
    )
    list_filter = ("state",)

    @admin.display(description="chunks done")
    def progress(self, run: ImportRun) -> str:
        done = run.chunks.filter(state=ImportChunk.State.DONE).count()
        return f"{done} of {run.chunks.count()}"


@admin.register(RejectedRow)
class RejectedRowAdmin(ReadOnlyAdmin):
    """What to correct in the file."""

    list_display = ("run", "line", "kind", "reason", "raw")
    list_filter = ("kind", "run")


@admin.register(Product)
class ProductAdmin(ReadOnlyAdmin):
    """What was imported."""

    list_display = ("sku", "name", "price", "stock", "updated_at")
    search_fields = ("=sku", "name")
