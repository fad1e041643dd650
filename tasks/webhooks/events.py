"""Telling the endpoints: store the deliveries, then publish their tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction

from tasks.webhooks.models import WebhookDelivery, WebhookEndpoint
from tasks.webhooks.tasks import deliver


def notify(event: str, payload: Mapping[str, Any]) -> list[WebhookDelivery]:
    """Send an event to every active endpoint.

    Inside a transaction the tasks are published after its commit, so that a worker finds the rows.

    Args:
        event: its name, for instance "order.confirmed".
        payload: JSON-native.
    """
    with transaction.atomic():
        deliveries = [
            WebhookDelivery.objects.create(endpoint=endpoint, event=event, payload=dict(payload))
            for endpoint in WebhookEndpoint.objects.filter(active=True)
        ]
        for delivery in deliveries:
            deliver.delay(delivery.pk)
    return deliveries


def notify_many(endpoint: WebhookEndpoint, events: Iterable[tuple[str, Mapping[str, Any]]]) -> list[int]:
    """Send many events to one endpoint, with one bulk publish.

    Call it outside of a transaction: the tasks are published at once.

    Returns:
        the ids of the deliveries.
    """
    deliveries = WebhookDelivery.objects.bulk_create(
        [WebhookDelivery(endpoint=endpoint, event=event, payload=dict(payload)) for event, payload in events],
        batch_size=500,
    )
    deliver.enqueue_many((delivery.pk,) for delivery in deliveries)
    return [delivery.pk for delivery in deliveries]
