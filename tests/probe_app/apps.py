"""The app's configuration."""

from django.apps import AppConfig


class ProbeConfig(AppConfig):
    """Installed by the tests' settings only."""

    name = "tests.probe_app"
    label = "probe"
