"""The Django app of the image sets."""

from django.apps import AppConfig


class MediaConfig(AppConfig):
    """The pattern "long-running with progress and cancel"."""

    name = "tasks.media"
    label = "media"
    verbose_name = "Image sets"
    default_auto_field = "django.db.models.BigAutoField"
