"""`manage.py up`: the whole platform in one terminal, for development."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings as django_settings
from django.core.management.base import BaseCommand, CommandError

from taskyard.conf import Settings, get_settings
from taskyard.errors import LaunchError
from taskyard.launch.flower_password import given_or_new_password
from taskyard.launch.output import Console, wants_colour
from taskyard.launch.parts import Choice, management_command, platform_parts
from taskyard.launch.platform_run import PlatformRun


class Command(BaseCommand):
    """Starts the broker, the site, one worker per queue, beat and Flower, and stops them in order."""

    help = (
        "Run everything in the foreground: the embedded broker, the site, one worker per queue, beat and "
        "Flower. Ctrl-C stops everything in order; a second Ctrl-C does not wait."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--no-flower", action="store_true", help="leave Flower out")
        parser.add_argument("--no-beat", action="store_true", help="leave beat out: no schedule runs")
        parser.add_argument(
            "--queue",
            action="append",
            metavar="NAME",
            help="run a worker for this queue only; may be repeated",
        )

    def handle(self, *_: Any, **options: Any) -> None:
        settings = get_settings()
        if not django_settings.DEBUG:
            raise CommandError(
                "manage.py up is for development: it makes an admin login and uses Django's development "
                "server. Set DJANGO_DEBUG=1, or run the parts by themselves (web, worker, beat)."
            )
        try:
            choice = choose(settings, options)
            parts = platform_parts(settings, choice, command=management_command(sys.argv[0]))
            console = Console(
                self.stdout,
                ["migrate", "broker", *(part.name for part in parts)],
                colour=wants_colour(self.stdout, os.environ),
            )
            code = PlatformRun(settings, choice, parts, console).run()
        except LaunchError as error:
            raise CommandError(str(error)) from error
        if code:
            raise SystemExit(code)


def choose(settings: Settings, options: dict[str, Any]) -> Choice:
    """Return what the options ask for.

    Raises:
        UnknownQueueError: a queue is named that does not exist.
    """
    table = settings.queue_table
    named = options["queue"] or list(table)
    password, is_new = (None, False) if options["no_flower"] else given_or_new_password(settings)
    return Choice(
        queues=tuple(dict.fromkeys(table.require(name, where="--queue").name for name in named)),
        with_beat=not options["no_beat"],
        flower_password=password,
        shows_flower_password=is_new,
    )
