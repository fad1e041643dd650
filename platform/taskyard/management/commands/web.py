"""`manage.py web`: the site, by Django's development server."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand

from taskyard.conf import get_settings


class Command(BaseCommand):
    """Runs Django's server on the address in the settings, with static files under DEBUG."""

    help = "Run the site with Django's development server on TASKYARD_HOST and TASKYARD_WEB_PORT."

    def handle(self, *_: Any, **__: Any) -> None:
        settings = get_settings()
        # The server ends well on Ctrl-C; SIGTERM is to do the same.
        signal.signal(signal.SIGTERM, _interrupt)
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        call_command("runserver", f"{host}:{settings.web_port}", use_reloader=False)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
