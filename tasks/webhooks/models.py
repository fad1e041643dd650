"""The tables of the webhooks: who wants to be told, and what they were told."""

from __future__ import annotations

import secrets
import uuid

from django.db import models


def generate_secret() -> str:
    """Return a new signing secret of 256 bits."""
    return secrets.token_urlsafe(32)


class WebhookEndpoint(models.Model):
    """One receiver."""

    url = models.URLField(max_length=1000)
    secret = models.CharField(max_length=200, default=generate_secret, help_text="Signs every delivery.")
    active = models.BooleanField(default=True, db_index=True)
    deactivated_reason = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"endpoint {self.pk} ({'active' if self.active else 'inactive'})"


class WebhookDelivery(models.Model):
    """One event on its way to one endpoint."""

    class State(models.TextChoices):
        PENDING = "pending", "pending"
        DELIVERED = "delivered", "delivered"
        FAILED = "failed", "failed"
        CANCELLED = "cancelled", "cancelled"

    endpoint = models.ForeignKey(WebhookEndpoint, on_delete=models.CASCADE, related_name="deliveries")
    # The same in every attempt: the receiver recognises a duplicate by it.
    webhook_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    event = models.CharField(max_length=100, db_index=True)
    payload = models.JSONField()
    state = models.CharField(max_length=16, choices=State.choices, default=State.PENDING, db_index=True)
    attempts = models.PositiveIntegerField(default=0)
    last_status = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text="HTTP status of the last answer."
    )
    last_error = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    last_attempt_at = models.DateTimeField(null=True, blank=True)
    delivered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "webhook deliveries"

    def __str__(self) -> str:
        return f"{self.event} to {self.endpoint_id} ({self.state})"
