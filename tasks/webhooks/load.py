"""Input for the demo: events as a shop would send them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tasks.webhooks.models import WebhookDelivery, WebhookEndpoint

EVENTS = ("order.confirmed", "order.shipped", "invoice.paid", "customer.updated")
_BATCH = 500
_CITIES = ("Aarhus", "Gdańsk", "Lyon", "Málaga", "Tartu", "Zürich")


def generate_events(count: int, rng: random.Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield `count` pairs of event name and payload; the same seed gives the same events."""
    for number in range(1, count + 1):
        quantity = rng.randint(1, 5)
        yield (
            rng.choice(EVENTS),
            {
                "number": number,
                "order_id": rng.randrange(10_000, 99_999),
                "city": rng.choice(_CITIES),
                "lines": [{"sku": f"SKU-{rng.randrange(1000):04}", "quantity": quantity}],
                "total": f"{quantity * rng.randrange(199, 19_900) / 100:.2f}",
            },
        )


def create_deliveries(count: int, rng: random.Random, *, url: str) -> list[int]:
    """Store `count` deliveries to one endpoint, made if missing, and return their ids. Publishes nothing."""
    endpoint, _ = WebhookEndpoint.objects.get_or_create(url=url)
    deliveries = [
        WebhookDelivery(endpoint=endpoint, event=event, payload=payload)
        for event, payload in generate_events(count, rng)
    ]
    return [delivery.pk for delivery in WebhookDelivery.objects.bulk_create(deliveries, batch_size=_BATCH)]
