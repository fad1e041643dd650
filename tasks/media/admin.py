"""Image sets in the admin: progress, report and cancel."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from tasks.media import services
from tasks.media.models import ImageSet


@admin.register(ImageSet)
class ImageSetAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # generic in the stubs only
    """A read-only list with one action."""

    list_display = ("id", "source_folder", "state", "progress", "broken", "cancel_requested", "progress_at")
    list_filter = ("state",)
    actions = ("request_cancel",)

    @admin.display(description="progress")
    def progress(self, image_set: ImageSet) -> str:
        percent = 100 * image_set.done // image_set.total if image_set.total else 0
        return f"{image_set.done} of {image_set.total} ({percent} %)"

    @admin.action(description="Cancel the selected image sets")
    def request_cancel(self, request: HttpRequest, queryset: QuerySet[ImageSet]) -> None:
        asked = sum(services.request_cancel(pk) for pk in queryset.values_list("pk", flat=True))
        self.message_user(request, f"{asked} image sets will stop before their next picture.")

    def has_add_permission(self, request: HttpRequest) -> bool:
        # A path that a form names would be read by the workers.
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
