"""The Django app of the scheduled tasks."""

from django.apps import AppConfig


class ReportsConfig(AppConfig):
    """Reports, clean-up, and their schedules. Has no tables."""

    name = "tasks.reports"
    label = "reports"
    verbose_name = "Reports"
