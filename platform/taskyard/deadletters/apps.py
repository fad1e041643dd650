"""The Django app of the dead letter store."""

from django.apps import AppConfig


class DeadLettersConfig(AppConfig):
    """Registers the store as the place where final failures go."""

    name = "taskyard.deadletters"
    label = "deadletters"
    verbose_name = "Dead letters"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from taskyard.deadletters.service import record, record_undecodable
        from taskyard.tasks import failures
        from taskyard.transport import undecodable

        failures.set_sink(record)
        undecodable.set_undecodable_sink(record_undecodable)
