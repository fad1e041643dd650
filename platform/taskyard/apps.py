"""The kit's Django app."""

from django.apps import AppConfig


class TaskyardConfig(AppConfig):
    """Validates the settings when Django starts and sets up logging."""

    name = "taskyard"
    label = "taskyard"
    verbose_name = "Taskyard"

    def ready(self) -> None:
        import taskyard.checks  # noqa: F401 - registers them
        from taskyard.conf import get_settings
        from taskyard.observe.logging import configure_logging
        from taskyard.worker.signals import connect_worker_signals

        configure_logging(get_settings())
        connect_worker_signals()
