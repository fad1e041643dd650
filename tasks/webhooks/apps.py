"""The Django app of the webhooks."""

from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    """The pattern "webhook"."""

    name = "tasks.webhooks"
    label = "webhooks"
    verbose_name = "Webhooks"
    default_auto_field = "django.db.models.BigAutoField"
