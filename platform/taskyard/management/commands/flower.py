"""`manage.py flower`: the live view of workers and tasks, behind a login."""

from __future__ import annotations

from typing import Any

from celery import current_app
from django.core.management.base import BaseCommand, CommandError

from taskyard.conf import get_settings
from taskyard.errors import LaunchError
from taskyard.launch.flower_password import given_or_new_password
from taskyard.launch.flower_server import run_flower


class Command(BaseCommand):
    """Runs Flower in the foreground."""

    help = "Run Flower. Its user and password are TASKYARD_FLOWER_USER and TASKYARD_FLOWER_PASSWORD."
    requires_system_checks: list[str] = []

    def handle(self, *_: Any, **__: Any) -> None:
        settings = get_settings()
        try:
            password, is_new = given_or_new_password(settings)
            if is_new:
                self.stdout.write(f"Flower: log in as {settings.flower_user} with the password {password}")
                self.stdout.flush()
            run_flower(current_app, settings, password)
        except LaunchError as error:
            raise CommandError(str(error)) from error
