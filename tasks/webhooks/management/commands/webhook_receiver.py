"""manage.py webhook_receiver: receive the webhooks of this project on this machine."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from tasks.webhooks.models import WebhookEndpoint
from tasks.webhooks.receiver import WebhookReceiver

REPORT_SECONDS = 5.0


class Command(BaseCommand):
    """Registers itself as an endpoint, then receives until it is interrupted."""

    help = "Receive webhooks on this machine; fails on purpose for a share of them."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--port", type=int, default=8088, help="where to listen on 127.0.0.1 (default: 8088)"
        )
        parser.add_argument(
            "--fail-rate", type=float, default=0.0, help="share of requests that fail, 0 to 1"
        )
        parser.add_argument("--seed", type=int, default=None, help="makes the failures repeatable")

    def handle(self, *_: Any, **options: Any) -> None:
        port, fail_rate = options["port"], options["fail_rate"]
        if not 0 <= fail_rate <= 1:
            raise CommandError(f"--fail-rate is {fail_rate}. Give a share between 0 and 1.")
        try:
            receiver = WebhookReceiver(port=port, fail_rate=fail_rate, seed=options["seed"])
        except (OSError, OverflowError) as error:
            raise CommandError(f"Port {port} cannot be used: {error}. Choose another with --port.") from error
        # Its secret is in the table: on a command line every user of the machine could read it.
        endpoint = WebhookEndpoint.objects.get_or_create(url=receiver.url)[0]
        with receiver:
            self.stdout.write(f"Receiving as endpoint {endpoint.pk} at {receiver.url}, stop with Ctrl-C.")
            with contextlib.suppress(KeyboardInterrupt):
                self._report_until_interrupted(receiver)
        self._report(receiver)

    def _report_until_interrupted(self, receiver: WebhookReceiver) -> None:
        last, pause = -1, threading.Event()
        while True:
            total = receiver.received.times_by_id.total()
            if total != last:
                self._report(receiver)
                last = total
            pause.wait(REPORT_SECONDS)

    def _report(self, receiver: WebhookReceiver) -> None:
        seen = receiver.received
        self.stdout.write(
            f"{seen.unique} unique, {seen.duplicates} duplicates, {seen.refused} with a wrong signature, "
            f"{seen.failed_on_purpose} answered 503, {seen.dropped_on_purpose} dropped"
        )
        self.stdout.flush()
