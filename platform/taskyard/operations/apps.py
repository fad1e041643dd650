"""The Django app for operators."""

from django.apps import AppConfig


class OperationsConfig(AppConfig):
    """Brings the commands with which queues are looked at, paused and purged."""

    name = "taskyard.operations"
    label = "operations"
    verbose_name = "Operations"
