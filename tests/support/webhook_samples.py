"""Deliveries of webhooks for the tests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tasks.webhooks.models import WebhookDelivery, WebhookEndpoint
from tests.support.webhook_receivers import SECRET

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def delivery_to(url: str, **fields: Any) -> WebhookDelivery:
    """Create a pending delivery to a new endpoint; keyword arguments are fields of the delivery."""
    endpoint = WebhookEndpoint.objects.create(url=url, secret=SECRET)
    return WebhookDelivery.objects.create(
        endpoint=endpoint, event="order.confirmed", payload={"total": "12.50 €"}, **fields
    )
