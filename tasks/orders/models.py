"""Orders and payments. Card data never comes here, only the token that the provider gave for it."""

from __future__ import annotations

from django.db import models
from django.utils import timezone


class Order(models.Model):
    """What a customer has ordered, and how far it is."""

    class State(models.TextChoices):
        PLACED = "placed"
        PAID = "paid"
        DECLINED = "declined"

    customer_email = models.EmailField()
    amount_cents = models.PositiveIntegerField()
    currency = models.CharField(max_length=3, default="EUR")
    card_token = models.CharField(max_length=64)
    state = models.CharField(max_length=10, choices=State, default=State.PLACED)
    created_at = models.DateTimeField(default=timezone.now, db_index=True)
    receipt_sent_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-created_at",)
        constraints = (
            models.CheckConstraint(
                condition=models.Q(amount_cents__gt=0), name="orders_order_amount_is_positive"
            ),
        )

    def __str__(self) -> str:
        return f"order {self.pk}"


class Payment(models.Model):
    """The payment of an order: at most one, and the database sees to it."""

    # One-to-one is a unique constraint: it is what makes the effect of a charge happen once.
    order = models.OneToOneField(Order, on_delete=models.PROTECT, related_name="payment")
    amount_cents = models.PositiveIntegerField()
    currency = models.CharField(max_length=3)
    provider_reference = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return f"payment {self.provider_reference}"


class DailySales(models.Model):
    """What was paid on the orders of a day: a total, which grows with each run that adds to it."""

    day = models.DateField()
    currency = models.CharField(max_length=3)
    orders = models.PositiveIntegerField(default=0)
    amount_cents = models.PositiveBigIntegerField(default=0)

    class Meta:
        ordering = ("-day", "currency")
        verbose_name_plural = "daily sales"
        constraints = (
            models.UniqueConstraint(fields=("day", "currency"), name="orders_dailysales_day_is_unique"),
        )

    def __str__(self) -> str:
        return f"sales of {self.day} in {self.currency}"
