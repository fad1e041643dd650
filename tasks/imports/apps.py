"""The Django app of the imports."""

from django.apps import AppConfig


class ImportsConfig(AppConfig):
    """The pattern "pipeline"."""

    name = "tasks.imports"
    label = "imports"
    verbose_name = "Product imports"
    default_auto_field = "django.db.models.BigAutoField"
