"""`manage.py services`: the embedded broker alone, so that the other parts can be run one by one."""

from __future__ import annotations

import os
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from taskyard.brokers.embedded import EmbeddedBroker
from taskyard.conf import Settings, get_settings
from taskyard.errors import LaunchError
from taskyard.launch.orphan_guard import OrphanGuard
from taskyard.launch.output import Console, wants_colour
from taskyard.launch.stop_requests import StopRequests
from taskyard.launch.supervisor import Supervisor
from taskyard.masking import mask_url


class Command(BaseCommand):
    """Runs the embedded broker in the foreground."""

    help = "Run the embedded broker alone, in the foreground."
    requires_system_checks: list[str] = []

    def handle(self, *_: Any, **__: Any) -> None:
        settings = get_settings()
        if not settings.uses_embedded_broker:
            raise CommandError(
                f"TASKYARD_BROKER_URL is {mask_url(settings.broker_url)}, so there is nothing to run. "
                "Unset it to use the embedded broker."
            )
        try:
            code = run_services(
                settings,
                Console(self.stdout, [], speaker="services", colour=wants_colour(self.stdout, os.environ)),
            )
        except LaunchError as error:
            raise CommandError(str(error)) from error
        if code:
            raise SystemExit(code)


def run_services(settings: Settings, console: Console) -> int:
    """Run the embedded broker until a signal; return the exit code."""
    with StopRequests() as requests, OrphanGuard() as guard:
        broker = EmbeddedBroker(settings.var_dir / "valkey", settings.embedded_port, guard=guard)
        try:
            broker.start()
            return Supervisor(
                [broker.process], console, requests, on_ready=lambda: console.say(how_to_go_on(broker))
            ).run()
        except KeyboardInterrupt:
            return 0
        finally:
            broker.stop()


def how_to_go_on(broker: EmbeddedBroker) -> str:
    """Return what to do with the running broker."""
    return (
        f"The broker runs: {broker.url} (data and log in {broker.data_dir}).\n"
        "In other terminals: make worker, make web, make beat, make flower. Ctrl-C stops the broker."
    )
