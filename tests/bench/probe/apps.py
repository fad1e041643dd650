"""Makes the bench's Celery app when Django starts, as a project's own package does."""

from django.apps import AppConfig


class ProbeConfig(AppConfig):
    """The probe tasks on the kit."""

    name = "tests.bench.probe"
    label = "bench_probe"

    def ready(self) -> None:
        from tests.bench import kit_app  # noqa: F401
