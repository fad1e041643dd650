"""Guaranteed: the queue `critical`, an effect that happens once, and a dead letter where it cannot happen."""

from __future__ import annotations

from celery import shared_task
from django.core.exceptions import ObjectDoesNotExist

from tasks.mail.delivery import AddressRefused
from tasks.orders import services
from tasks.orders.providers import CardDeclined, payment_provider
from taskyard import Exponential, IdempotentTask

DAY_SECONDS = 24 * 3600


@shared_task(
    name="orders.send_receipt",
    queue="high",
    retry=Exponential(max_retries=5, never_on=(ObjectDoesNotExist, AddressRefused)),
    # The message carries the address to the worker; no log, event, page or dead letter shows it.
    redact=("email",),
    idempotent="natural",
    idempotent_reason="a recorded receipt is not sent again; a crash before the record sends it twice",
)
def send_receipt(order_id: int, email: str) -> None:
    """Send the receipt of a paid order."""
    services.send_receipt(order_id, email)


@shared_task(
    name="orders.charge_order",
    base=IdempotentTask,
    queue="critical",
    # One run at a time for an order, and none after one that has succeeded. A run that is killed in between
    # is followed by another: the reason below is for that one.
    idempotency_key="order_id",
    # A provider may be away for hours, so the age decides and not the count. A declined card never heals.
    retry=Exponential(
        max_retries=None,
        max_age_seconds=DAY_SECONDS,
        never_on=(CardDeclined, ObjectDoesNotExist, services.PaymentConflict),
    ),
    on_exhausted="dead_letter",
    idempotent="natural",
    idempotent_reason="the provider makes one charge per key, the database keeps one payment per order",
)
def charge_order(order_id: int) -> None:
    """Charge an order exactly once, then have its receipt sent."""
    order = services.charge_order(order_id, provider=payment_provider())
    # Also where the order was paid already: the run that charged it may have died before these lines.
    services.count_sale(order)
    send_receipt.delay(order.pk, order.customer_email)
