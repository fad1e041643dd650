"""`manage.py beat`: sends what the schedules in the database say."""

from __future__ import annotations

from typing import Any

from celery import current_app, signals
from django.core.management.base import BaseCommand

from taskyard.conf import get_settings
from taskyard.launch.ready_file import touch_ready_file


class Command(BaseCommand):
    """Runs Celery's beat in the foreground, without a pid file."""

    help = "Run beat: it sends the tasks of the schedules when they are due. Run one."
    requires_system_checks: list[str] = []

    def handle(self, *_: Any, **__: Any) -> None:
        signals.setup_logging.connect(_keep_our_logging, dispatch_uid="taskyard.beat.logging")
        signals.beat_init.connect(touch_ready_file, dispatch_uid="taskyard.beat.ready")
        current_app.Beat(loglevel=get_settings().log_level, quiet=True, pidfile=None).run()


def _keep_our_logging(**_: Any) -> None:
    """A receiver of this signal tells Celery that logging is set up."""
