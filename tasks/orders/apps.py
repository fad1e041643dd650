"""The Django app of the order tasks."""

from django.apps import AppConfig


class OrdersConfig(AppConfig):
    """Orders and their payments."""

    name = "tasks.orders"
    label = "orders"
    verbose_name = "Orders"
    default_auto_field = "django.db.models.BigAutoField"
