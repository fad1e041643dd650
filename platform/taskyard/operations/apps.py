"""The Django app for operators."""

from django.apps import AppConfig


class OperationsConfig(AppConfig):
    """Brings the commands and pages with which operators look at queues, breakers and claims."""

    name = "taskyard.operations"
    label = "operations"
    verbose_name = "Operations"
