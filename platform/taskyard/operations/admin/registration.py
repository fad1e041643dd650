"""Where the pages are in the Django admin, and who may see them."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib import admin
from django.http import HttpRequest
from django.urls import URLPattern, path

from taskyard.models import TrackedTask
from taskyard.operations.admin.claim_pages import release, show_claims
from taskyard.operations.admin.tracked_pages import cancel_task, show_tasks
from taskyard.operations.models import HeldClaim


class OperatorsAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # generic in the stubs only
    """Pages of our own at the addresses of the admin. Nothing is added, changed or deleted by hand."""

    def has_add_permission(self, *_: Any, **__: Any) -> bool:
        return False

    def has_change_permission(self, *_: Any, **__: Any) -> bool:
        return False

    def has_delete_permission(self, *_: Any, **__: Any) -> bool:
        return False

    def _path(self, route: str, page: Any, name: str) -> URLPattern:
        # the admin site first: it asks strangers to log in, and checks the CSRF token
        return path(route, self.admin_site.admin_view(lambda request: page(self, request)), name=name)


class HeldClaimAdmin(OperatorsAdmin):
    """Claims: a list, and a page to release one."""

    def has_release_permission(self, request: HttpRequest) -> bool:
        """Return whether this user may free what somebody else holds."""
        return bool(request.user.has_perm("operations.release_heldclaim"))

    def get_urls(self) -> list[URLPattern]:
        return [
            self._path("", show_claims, "operations_heldclaim_changelist"),
            self._path("release/", release, "operations_heldclaim_release"),
        ]


class TrackedTaskAdmin(OperatorsAdmin):
    """Tracked tasks (long and cancelled ones): a list, and a page to cancel one."""

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        """Return whether this user may cancel tasks."""
        return bool(request.user.has_perm("taskyard.cancel_trackedtask"))

    def get_urls(self) -> list[URLPattern]:
        return [
            self._path("", show_tasks, "taskyard_trackedtask_changelist"),
            self._path("cancel/", cancel_task, "taskyard_trackedtask_cancel"),
        ]


# Django imports the template tags of every app, and they import this package: also where there is no admin.
if apps.is_installed("django.contrib.admin"):
    admin.site.register(HeldClaim, HeldClaimAdmin)
    admin.site.register(TrackedTask, TrackedTaskAdmin)
