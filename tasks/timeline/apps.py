"""The Django app of the timeline tasks."""

from django.apps import AppConfig


class TimelineConfig(AppConfig):
    """Users' activities and the timelines made of them."""

    name = "tasks.timeline"
    label = "timeline"
    verbose_name = "Timelines"
    default_auto_field = "django.db.models.BigAutoField"
