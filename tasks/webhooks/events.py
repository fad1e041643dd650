"""Telling the endpoints: store the deliveries, then publish their tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from django.db import transaction

from tasks.webhooks.models import WebhookDelivery, WebhookEndpoint
from tasks.webhooks.tasks import deliver


def notify(event: str, payload: Mapping[str, Any]) -> list[WebhookDelivery]:
    """Send an event to every active endpoint.

    The tasks are published after the commit, so that a worker finds the rows.

    Args:
        event: its name, for instance "order.confirmed".
        payload: JSON-native.
    """
    with transaction.atomic():
        deliveries = [
            WebhookDelivery.objects.create(endpoint=endpoint, event=event, payload=dict(payload))
            for endpoint in WebhookEndpoint.objects.filter(active=True)
        ]
        transaction.on_commit(partial(publish_deliveries, [delivery.pk for delivery in deliveries]))
    return deliveries


def publish_deliveries(delivery_ids: Iterable[int]) -> None:
    """Publish the tasks of many stored deliveries at once, thousands a second."""
    deliver.enqueue_many((delivery_id,) for delivery_id in delivery_ids)
