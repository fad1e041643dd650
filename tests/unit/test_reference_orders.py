"""Charging an order: the effect happens once, whatever is delivered again."""

import random
from datetime import UTC, datetime

import pytest
from django.core import mail
from django.db import IntegrityError, transaction

from tasks.orders import services
from tasks.orders.checkout import place_order
from tasks.orders.load import create_orders
from tasks.orders.models import DailySales, Order, Payment
from tasks.orders.providers import (
    TOKEN_ACCEPTED,
    TOKEN_DECLINED,
    TOKEN_UNSTABLE,
    CardDeclined,
    Charge,
    PaymentUnavailable,
    SandboxProvider,
    payment_provider,
)
from tasks.orders.tasks import charge_order, send_receipt
from taskyard import IdempotentTask
from taskyard.tasks.idempotency import key_of

pytestmark = pytest.mark.django_db
NOW = datetime(2031, 5, 4, 12, 0, tzinfo=UTC)
DAY_SECONDS = 24 * 3600


class RecordingProvider:
    """A provider with books of its own: one charge per key. Loses the first answers on demand."""

    def __init__(self, *, lost_answers=0, after_charge=lambda: None):
        self.charges = {}
        self.asked = 0
        self.lost_answers = lost_answers
        self.after_charge = after_charge

    def charge(self, *, amount_cents, currency, card_token, idempotency_key):
        self.asked += 1
        reference = f"made-up-{idempotency_key}"
        charge = self.charges.setdefault(idempotency_key, Charge(reference, amount_cents, currency))
        if self.lost_answers:
            self.lost_answers -= 1
            raise PaymentUnavailable("the answer was lost")
        self.after_charge()
        return charge


def make_order(card_token=TOKEN_ACCEPTED, **fields):
    return Order.objects.create(
        customer_email="alder@example.com", amount_cents=1999, card_token=card_token, **fields
    )


def test_an_order_is_charged_and_paid():
    order = make_order()

    paid = services.charge_order(order.pk, provider=RecordingProvider())

    assert paid.state == Order.State.PAID
    assert (paid.payment.amount_cents, paid.payment.currency) == (1999, "EUR")


def test_a_second_delivery_does_not_even_ask_the_provider():
    order, provider = make_order(), RecordingProvider()

    services.charge_order(order.pk, provider=provider)
    services.charge_order(order.pk, provider=provider)

    assert provider.asked == 1
    assert Payment.objects.filter(order=order).count() == 1


def test_a_charge_whose_answer_was_lost_is_not_made_again():
    order, provider = make_order(), RecordingProvider(lost_answers=2)

    for _ in range(2):
        with pytest.raises(PaymentUnavailable):
            services.charge_order(order.pk, provider=provider)
    assert not Payment.objects.exists()
    services.charge_order(order.pk, provider=provider)

    assert list(provider.charges) == [f"order-{order.pk}"]
    assert Payment.objects.get().provider_reference == f"made-up-order-{order.pk}"


def test_a_delivery_that_was_overtaken_while_it_charged_finds_the_payment_of_the_other():
    order = make_order()
    inner = RecordingProvider()
    outer = RecordingProvider(after_charge=lambda: services.charge_order(order.pk, provider=inner))

    paid = services.charge_order(order.pk, provider=outer)

    assert paid.state == Order.State.PAID
    assert Payment.objects.count() == 1


def test_record_payment_says_who_wrote_it():
    order, charge = make_order(), Charge("made-up", 1999, "EUR")

    assert services.record_payment(order, charge) is True
    assert services.record_payment(order, charge) is False


def test_another_charge_of_the_same_order_is_a_conflict_and_changes_nothing():
    order = make_order()
    services.record_payment(order, Charge("made-up-1", 1999, "EUR"))

    with pytest.raises(services.PaymentConflict) as caught:
        services.record_payment(order, Charge("made-up-2", 1999, "EUR"))

    assert str(caught.value) == (
        f"The charge made-up-2 of order {order.pk} does not fit the payments that are stored. "
        "Compare them with the provider's books, and refund what is too much."
    )
    assert Payment.objects.get().provider_reference == "made-up-1"
    assert not charge_order.retry_policy.matches(caught.value)


def test_payment_and_state_are_written_together_or_not_at_all():
    order, other = make_order(), make_order()
    services.record_payment(other, Charge("made-up", 1999, "EUR"))

    with pytest.raises(services.PaymentConflict):
        services.record_payment(order, Charge("made-up", 1999, "EUR"))

    order.refresh_from_db()
    assert order.state == Order.State.PLACED
    assert not Payment.objects.filter(order=order).exists()


def test_the_database_keeps_one_payment_per_order():
    order = make_order()
    Payment.objects.create(order=order, amount_cents=1, currency="EUR", provider_reference="made-up-1")

    with pytest.raises(IntegrityError), transaction.atomic():
        Payment.objects.create(order=order, amount_cents=1, currency="EUR", provider_reference="made-up-2")


def test_a_declined_card_marks_the_order_and_is_never_retried():
    order = make_order(TOKEN_DECLINED)

    with pytest.raises(CardDeclined) as caught:
        charge_order(order.pk)

    order.refresh_from_db()
    assert order.state == Order.State.DECLINED
    decision = charge_order.retry_policy.decide(caught.value, retries=0, age_seconds=0, now=NOW)
    assert (decision.is_retry, decision.reason) == (False, "not_retryable")
    assert charge_order.on_exhausted == "dead_letter"


def test_a_declined_order_is_paid_once_its_card_is_replaced():
    order = make_order(TOKEN_DECLINED)
    with pytest.raises(CardDeclined):
        charge_order(order.pk)
    Order.objects.filter(pk=order.pk).update(card_token=TOKEN_ACCEPTED)

    charge_order(order.pk)

    order.refresh_from_db()
    assert order.state == Order.State.PAID


@pytest.mark.parametrize("retries", [0, 5, 500])
def test_an_unavailable_provider_is_retried_until_the_age_limit_whatever_the_count(retries):
    decide = charge_order.retry_policy.decide
    error = PaymentUnavailable("no answer")

    assert decide(error, retries=retries, age_seconds=DAY_SECONDS - 601, now=NOW).is_retry
    assert decide(error, retries=retries, age_seconds=DAY_SECONDS + 1, now=NOW).reason == "age_exceeded"


def test_an_order_that_does_not_exist_is_never_retried():
    with pytest.raises(Order.DoesNotExist) as caught:
        charge_order(4711)

    assert not charge_order.retry_policy.matches(caught.value)


def test_each_run_of_the_charge_publishes_the_receipt(django_capture_on_commit_callbacks):
    order = make_order()

    for _ in range(2):
        with django_capture_on_commit_callbacks() as published:
            charge_order(order.pk)
        assert len(published) == 1


def test_a_sale_is_counted_once_however_often_the_charge_runs():
    order, other = make_order(), make_order()

    for _ in range(3):
        charge_order(order.pk)
    charge_order(other.pk)

    total = DailySales.objects.get()
    assert (total.day, total.currency) == (order.created_at.date(), "EUR")
    assert (total.orders, total.amount_cents) == (2, 2 * 1999)


def test_a_sale_is_counted_again_by_the_run_after_one_that_was_rolled_back():
    order = make_order()
    with transaction.atomic():
        services.count_sale(order)
        transaction.set_rollback(True)

    assert services.count_sale(order) is True
    assert services.count_sale(order) is False
    assert DailySales.objects.get().orders == 1


def test_the_charge_of_an_order_has_one_key_for_all_its_calls():
    assert isinstance(charge_order, IdempotentTask)
    assert key_of(charge_order, (7,), {}) == key_of(charge_order, (), {"order_id": 7})


def test_the_payment_provider_is_that_of_the_settings(settings):
    assert isinstance(payment_provider(), SandboxProvider)

    settings.ORDERS_PAYMENT_PROVIDER = f"{__name__}.RecordingProvider"

    assert type(payment_provider()).__name__ == "RecordingProvider"


def test_a_receipt_is_sent_once():
    order = make_order()
    services.charge_order(order.pk, provider=SandboxProvider())

    send_receipt(order.pk, "alder@example.com")
    send_receipt(order.pk, "alder@example.com")

    (message,) = mail.outbox
    assert message.to == ["alder@example.com"]
    assert "We have charged 19.99 EUR." in message.body


def test_there_is_no_receipt_for_an_order_that_is_not_paid():
    order = make_order()

    with pytest.raises(Order.DoesNotExist) as caught:
        send_receipt(order.pk, "alder@example.com")

    assert not send_receipt.retry_policy.matches(caught.value)
    assert mail.outbox == []


def test_the_address_of_a_receipt_is_masked_by_place_and_by_name():
    by_place, _ = send_receipt.redacted((7, "alder@example.com"), {})
    _, by_name = send_receipt.redacted((7,), {"email": "alder@example.com"})

    assert by_place[0] == 7
    assert "alder" not in f"{by_place}{by_name}"


def test_a_placed_order_is_published_with_its_commit(django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks() as published:
        order = place_order(customer_email="alder@example.com", amount_cents=500, card_token=TOKEN_ACCEPTED)

    assert Order.objects.get() == order
    assert len(published) == 1


def test_a_rolled_back_order_is_not_published(django_capture_on_commit_callbacks):
    with (
        django_capture_on_commit_callbacks() as published,
        pytest.raises(IntegrityError),
        transaction.atomic(),
    ):
        place_order(customer_email="alder@example.com", amount_cents=0, card_token=TOKEN_ACCEPTED)

    assert published == []


def test_the_sandbox_makes_the_same_charge_for_the_same_key():
    provider = SandboxProvider()

    def charge(key):
        return provider.charge(
            amount_cents=1, currency="EUR", card_token=TOKEN_ACCEPTED, idempotency_key=key
        ).reference

    assert charge("order-1") == charge("order-1") != charge("order-2")


@pytest.mark.parametrize(("rate", "answers"), [(1.0, False), (0.0, True)])
def test_an_unstable_token_fails_as_often_as_it_is_told(rate, answers):
    provider = SandboxProvider(random.Random(1), unavailable_rate=rate)

    def answers_once():
        try:
            provider.charge(amount_cents=1, currency="EUR", card_token=TOKEN_UNSTABLE, idempotency_key="k")
        except PaymentUnavailable:
            return False
        return True

    assert {answers_once() for _ in range(50)} == {answers}


def test_invented_orders_follow_the_seed_and_the_shares():
    ids = create_orders(400, random.Random(3), declined_share=0.25, unstable_share=0.0)
    again = create_orders(400, random.Random(3), declined_share=0.25, unstable_share=0.0)

    rows = [
        list(Order.objects.filter(pk__in=part).order_by("pk").values_list("amount_cents", "card_token"))
        for part in (ids, again)
    ]
    assert rows[0] == rows[1]
    tokens = [token for _, token in rows[0]]
    assert 60 < tokens.count(TOKEN_DECLINED) < 140
    assert TOKEN_UNSTABLE not in tokens
