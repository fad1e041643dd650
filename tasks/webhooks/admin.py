"""Webhooks in the admin: endpoints with their secrets masked, deliveries to find and read."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest

from tasks.webhooks.models import WebhookDelivery, WebhookEndpoint
from taskyard.masking import MASK


class EndpointForm(forms.ModelForm):  # type: ignore[type-arg] # generic in the stubs only
    """Takes a secret but never shows one."""

    url = forms.URLField(max_length=1000, assume_scheme="https")
    new_secret = forms.CharField(
        required=False,
        max_length=200,
        widget=forms.PasswordInput(render_value=False),
        help_text="Leave empty to keep the secret; a new endpoint gets a random one.",
    )

    class Meta:
        model = WebhookEndpoint
        fields = ("url", "active", "deactivated_reason")

    def save(self, commit: bool = True) -> Any:
        if self.cleaned_data["new_secret"]:
            self.instance.secret = self.cleaned_data["new_secret"]
        return super().save(commit)


@admin.register(WebhookEndpoint)
class WebhookEndpointAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # generic in the stubs only
    """The receivers."""

    form = EndpointForm
    list_display = ("id", "url", "active", "deactivated_reason", "created_at")
    list_filter = ("active",)
    search_fields = ("url",)
    readonly_fields = ("masked_secret",)

    @admin.display(description="secret")
    def masked_secret(self, endpoint: WebhookEndpoint) -> str:
        return MASK if endpoint.secret else "none"


@admin.register(WebhookDelivery)
class WebhookDeliveryAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # generic in the stubs only
    """A read-only list, newest first."""

    list_display = ("webhook_id", "event", "endpoint", "state", "attempts", "last_status", "created_at")
    list_filter = ("state", "event", "last_status")
    list_select_related = ("endpoint",)
    search_fields = ("=webhook_id",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
