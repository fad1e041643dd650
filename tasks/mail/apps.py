"""The Django app of the mail tasks."""

from django.apps import AppConfig


class MailConfig(AppConfig):
    """Welcome mails and their records."""

    name = "tasks.mail"
    label = "mail"
    verbose_name = "Mail"
    default_auto_field = "django.db.models.BigAutoField"
