"""Orders and payments, to find and read."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from tasks.orders.models import DailySales, Order, Payment


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # generic in the stubs only
    """Money is moved by tasks, never by hand."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Order)
class OrderAdmin(ReadOnlyAdmin):
    list_display = (
        "id",
        "customer_email",
        "amount_cents",
        "currency",
        "state",
        "created_at",
        "receipt_sent_at",
    )
    list_filter = ("state", "currency")
    search_fields = ("=id", "customer_email", "payment__provider_reference")
    date_hierarchy = "created_at"
    exclude = ("card_token",)


@admin.register(DailySales)
class DailySalesAdmin(ReadOnlyAdmin):
    list_display = ("day", "currency", "orders", "amount_cents")
    list_filter = ("currency",)
    date_hierarchy = "day"


@admin.register(Payment)
class PaymentAdmin(ReadOnlyAdmin):
    list_display = ("provider_reference", "order", "amount_cents", "currency", "created_at")
    list_filter = ("currency",)
    list_select_related = ("order",)
    search_fields = ("provider_reference", "=order__id", "order__customer_email")
    date_hierarchy = "created_at"
