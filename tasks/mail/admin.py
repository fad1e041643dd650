"""Which welcome mails have been sent."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from tasks.mail.models import WelcomeMail


@admin.register(WelcomeMail)
class WelcomeMailAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # generic in the stubs only
    """A read-only list. Deleting a record makes the next `mail.send_welcome` send the mail again."""

    list_display = ("user", "sent_at")
    list_select_related = ("user",)
    search_fields = ("user__username", "user__email")
    date_hierarchy = "sent_at"

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
