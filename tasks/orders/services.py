"""What the order tasks do."""

from __future__ import annotations

from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend
from django.db import IntegrityError, models, transaction
from django.db.models import F
from django.template.loader import render_to_string

from tasks.mail.delivery import deliver
from tasks.orders.models import DailySales, Order, Payment
from tasks.orders.providers import CardDeclined, Charge, PaymentProvider
from taskyard import effect_once
from taskyard.clock import SYSTEM_CLOCK, Clock


class PaymentConflict(Exception):
    """The database refuses the payment of a charge for another reason than that it is stored already."""


def charge_order(order_id: int, *, provider: PaymentProvider) -> Order:
    """Charge an order exactly once, however often this is called.

    The provider is asked with one key per order, so that a call whose answer was lost charges nothing more;
    the payment and the state of the order are then written in one transaction, where the database allows one
    payment per order. The provider is called outside of it: a lock held across the network would block others
    for as long as the provider is slow.

    Args:
        order_id: the order.
        provider: who charges.

    Returns:
        the order, paid.

    Raises:
        Order.DoesNotExist: there is no such order.
        PaymentUnavailable: the provider did not answer; call again.
        CardDeclined: the order is marked as declined; calling again is useless.
        PaymentConflict: the order has another payment, or the charge belongs to another order.
    """
    order = Order.objects.get(pk=order_id)
    if order.state == Order.State.PAID:
        return order
    try:
        charge = provider.charge(
            amount_cents=order.amount_cents,
            currency=order.currency,
            card_token=order.card_token,
            idempotency_key=f"order-{order.pk}",
        )
    except CardDeclined:
        _unpaid(order).update(state=Order.State.DECLINED)
        raise
    record_payment(order, charge)
    order.refresh_from_db()
    return order


def record_payment(order: Order, charge: Charge) -> bool:
    """Write the payment and mark the order as paid, both or neither.

    Returns:
        whether this call wrote it; False where another delivery of the same task was faster.

    Raises:
        PaymentConflict: the order has another payment, or the charge belongs to another order.
    """
    try:
        with transaction.atomic():
            Payment.objects.create(
                order=order,
                amount_cents=charge.amount_cents,
                currency=charge.currency,
                provider_reference=charge.reference,
            )
            _unpaid(order).update(state=Order.State.PAID)
    except IntegrityError as error:
        # The same key gave a concurrent delivery the same charge. Anything else is for a person to see.
        if Payment.objects.filter(order=order, provider_reference=charge.reference).exists():
            return False
        raise PaymentConflict(
            f"The charge {charge.reference} of order {order.pk} does not fit the payments that are stored. "
            f"Compare them with the provider's books, and refund what is too much."
        ) from error
    return True


def count_sale(order: Order) -> bool:
    """Add a paid order to the sales of its day, once.

    A total has no constraint that would refuse the second time, so the record that it was counted commits
    with it.

    Returns:
        whether this call counted it.
    """
    with effect_once(f"orders.sale:{order.pk}") as is_first:
        if is_first:
            total, _ = DailySales.objects.get_or_create(day=order.created_at.date(), currency=order.currency)
            DailySales.objects.filter(pk=total.pk).update(
                orders=F("orders") + 1, amount_cents=F("amount_cents") + order.amount_cents
            )
    return bool(is_first)


def send_receipt(
    order_id: int, email: str, *, connection: BaseEmailBackend | None = None, clock: Clock = SYSTEM_CLOCK
) -> bool:
    """Send the receipt of a paid order, unless it is recorded as sent.

    A crash between sending and recording sends it twice: better than not at all.

    Args:
        order_id: the order.
        email: where the receipt goes.
        connection: the mail backend; that of the Django settings when None.

    Returns:
        whether this call sent it.

    Raises:
        Order.DoesNotExist: there is no such order, or it is not paid.
        AddressRefused: trying again is useless.
        MailNotTaken, OSError: the mail server did not take it; later it may.
    """
    order = Order.objects.get(pk=order_id, state=Order.State.PAID)
    if order.receipt_sent_at is not None:
        return False
    deliver(
        EmailMessage(
            subject=f"Receipt for order {order.pk}",
            body=render_to_string("orders/receipt.txt", {"order": order, "amount": _amount(order)}),
            to=[email],
            connection=connection,
        )
    )
    Order.objects.filter(pk=order_id, receipt_sent_at=None).update(receipt_sent_at=clock.now())
    return True


def _unpaid(order: Order) -> models.QuerySet[Order]:
    return Order.objects.filter(pk=order.pk).exclude(state=Order.State.PAID)


def _amount(order: Order) -> str:
    return f"{order.amount_cents // 100}.{order.amount_cents % 100:02d} {order.currency}"
