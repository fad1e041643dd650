"""The Django app of the demonstration."""

from django.apps import AppConfig


class DemoConfig(AppConfig):
    """Connects the recorder, which looks at nothing but the tasks of a demonstration."""

    name = "tasks.demo"
    label = "demo"

    def ready(self) -> None:
        from tasks.demo.recorder import connect

        connect()
