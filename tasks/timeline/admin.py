"""Timelines, to find the one that waits and the activity that it waits for."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import F, QuerySet
from django.http import HttpRequest

from tasks.timeline.models import Activity, Timeline


class IsWaitingFilter(admin.SimpleListFilter):
    """Timelines that have recorded more than they have applied."""

    title = "waiting"
    parameter_name = "waiting"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("1", "has pending activities")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(last_applied__lt=F("last_recorded")) if self.value() == "1" else queryset


@admin.register(Timeline)
class TimelineAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # generic in the stubs only
    """Read-only: the numbers belong to the tasks."""

    list_display = ("user", "last_recorded", "last_applied")
    list_filter = (IsWaitingFilter,)
    list_select_related = ("user",)
    search_fields = ("user__username", "=user__id")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Activity)
class ActivityAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # generic in the stubs only
    """What was recorded. An activity that is not applied yet can be corrected, which ends a blockade."""

    list_display = ("id", "timeline", "sequence", "kind", "subject", "recorded_at")
    list_filter = ("kind",)
    list_select_related = ("timeline",)
    search_fields = ("=id", "=timeline__user__id", "timeline__user__username", "subject")
    readonly_fields = ("timeline", "sequence", "recorded_at")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Activity | None = None) -> bool:
        is_pending = obj is None or obj.sequence > obj.timeline.last_applied
        return is_pending and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # A missing number would block its user for ever.
        return False
