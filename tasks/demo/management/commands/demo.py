"""`manage.py demo`: a realistic load through all five queues, and an account of every task."""

from __future__ import annotations

import random
import secrets
import threading
from argparse import ArgumentParser
from collections import deque
from pathlib import Path
from typing import Any

import redis
from django.conf import settings as django_settings
from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.live import Live

from tasks.demo import journal
from tasks.demo.account import Account
from tasks.demo.display import final_table, progress
from tasks.demo.load import Load, Piece, Size
from tasks.demo.standalone import platform
from taskyard.clock import SYSTEM_CLOCK
from taskyard.conf import get_settings
from taskyard.errors import LaunchError

REFRESH_SECONDS = 0.2
# A busy site, not a burst: waiting times then say something about the queues.
PIECES_A_SECOND = 40
# A task that has ended may still publish its children; nothing new for this long means that all is known.
QUIET_SECONDS = 1.0


class Command(BaseCommand):
    """Sends the load, shows the progress, and ends with the table.

    The exit code is 0 only if every task is accounted for.
    """

    help = "Send a realistic load of the reference tasks through all queues and account for every task."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--scale", type=float, default=1.0, help="size of the load; 1 is 50,000 CSV rows and 1,000 tasks"
        )
        parser.add_argument("--seed", type=int, default=1, help="the same seed makes the same load")
        parser.add_argument(
            "--timeout", type=float, default=600.0, help="seconds until the account is closed"
        )

    def handle(self, *_: Any, scale: float, seed: int, timeout: float, **__: Any) -> None:
        console = Console()
        settings = get_settings()
        try:
            with platform(settings, say=console.print):
                account, dead_letters = self._run(console, Size().scaled(scale), seed, timeout)
        except LaunchError as error:
            raise CommandError(str(error)) from error
        except redis.RedisError as error:
            raise CommandError(
                f"The broker went away during the demonstration ({error}). What was sent runs later."
            ) from error
        console.print()
        console.print(final_table(account, dead_letters=dead_letters))
        missing = len(account.open)
        if missing:
            raise CommandError(f"{missing} tasks are not accounted for after {timeout:g} s.")
        total = sum(len(queue.sent) for queue in account.queues.values())
        console.print(f"All {total:,} tasks are accounted for.")
        if dead_letters:
            console.print(
                f"{len(dead_letters)} of them are dead letters; while `make up` runs, see "
                f"http://{settings.host}:{settings.web_port}/admin/deadletters/deadletter/"
            )

    def _run(self, console: Console, size: Size, seed: int, timeout: float) -> tuple[Account, set[str]]:
        from tasks.webhooks.receiver import WebhookReceiver

        run = secrets.token_hex(6)
        folder = Path(django_settings.VAR_DIR) / "demo" / run
        folder.mkdir(parents=True)
        rng = random.Random(seed)  # noqa: S311 - invented data
        account = Account(get_settings().queue_table)
        with WebhookReceiver(fail_rate=0.1, seed=seed) as receiver:
            console.print("Sending:")
            load = Load(run, folder=folder, rng=rng, say=console.print)
            pieces = load.pieces(size, receiver_url=receiver.url)
            self._send_and_watch(console, run, pieces, account, timeout)
        dead_letters = dead_letter_ids(run)
        account.close(dead_letters)
        return account, dead_letters

    def _send_and_watch(
        self, console: Console, run: str, pieces: list[Piece], account: Account, timeout: float
    ) -> None:
        """Publish at an even pace and show the progress, until all is accounted for or the time is up."""
        waiting = deque(pieces)
        started = quiet_since = SYSTEM_CLOCK.monotonic()
        pause = threading.Event()
        with Live(console=console, refresh_per_second=4, transient=not console.is_terminal) as live:
            while True:
                now = SYSTEM_CLOCK.monotonic()
                due = int((now - started + REFRESH_SECONDS) * PIECES_A_SECOND) - (len(pieces) - len(waiting))
                for _ in range(min(due, len(waiting))):
                    waiting.popleft()()
                entries = journal.read(run, account.entries)
                account.add(entries)
                live.update(progress(account, elapsed_seconds=now - started))
                if waiting or entries or account.open:
                    quiet_since = now
                if now - quiet_since > QUIET_SECONDS or now - started > timeout:
                    return
                if not entries and account.open:
                    account.close(dead_letter_ids(run))
                pause.wait(REFRESH_SECONDS)


def dead_letter_ids(run: str) -> set[str]:
    """Return the ids of the demonstration's tasks that are dead letters."""
    from taskyard.deadletters.models import DeadLetter

    own = DeadLetter.objects.filter(correlation_id__startswith=f"{journal.PREFIX}{run}-")
    return set(own.values_list("task_id", flat=True))
