"""Where the pages are in the Django admin, and who may see them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import URLPattern, path

from taskyard.operations.admin.claim_pages import release, show_claims
from taskyard.operations.models import HeldClaim


@admin.register(HeldClaim)
class HeldClaimAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # generic in the stubs only
    """Claims: a list, and a page to release one. Nothing is added, changed or deleted by hand."""

    def has_add_permission(self, *_: Any, **__: Any) -> bool:
        return False

    def has_change_permission(self, *_: Any, **__: Any) -> bool:
        return False

    def has_delete_permission(self, *_: Any, **__: Any) -> bool:
        return False

    def has_release_permission(self, request: HttpRequest) -> bool:
        """Return whether this user may free what somebody else holds."""
        return bool(request.user.has_perm("operations.release_heldclaim"))

    def get_urls(self) -> list[URLPattern]:
        # the admin site first: it asks strangers to log in, and checks the CSRF token
        def view(page: Any) -> Any:
            return self.admin_site.admin_view(lambda request: page(self, request))

        return [
            path("", view(show_claims), name="operations_heldclaim_changelist"),
            path("release/", view(release), name="operations_heldclaim_release"),
        ]
