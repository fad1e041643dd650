"""`manage.py worker`: the worker of one queue, with that queue's pool, or one worker on all queues."""

from __future__ import annotations

import socket
import warnings
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from taskyard.conf import Settings, get_settings
from taskyard.queues import QueueSpec


class Command(BaseCommand):
    """Starts Celery's worker with the values of the queue table."""

    help = (
        "Run a worker. With --queue, the dedicated worker of that queue with its own processes, prefetch and "
        "limits; without, one worker on all queues in strict order, for development."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--queue",
            action="append",
            help="the queue to serve; may be repeated for a shared worker; all of them when not given",
        )
        parser.add_argument("--processes", type=int, help="pool processes, instead of the queue's number")
        parser.add_argument(
            "--prefetch", type=int, help="messages reserved per process, instead of the queue's number"
        )
        parser.add_argument(
            "--pool", choices=["prefork", "threads", "solo"], default="prefork", help="kind of pool"
        )
        parser.add_argument("--name", help="node name, instead of <queue>@<host>")

    def handle(self, *_: Any, **options: Any) -> None:
        settings = get_settings()
        table = settings.queue_table
        wanted = {table.require(name, where="--queue").name for name in options["queue"] or table}
        # in the order of the table, most urgent first, whatever the order on the command line
        queues = [spec for spec in table.values() if spec.name in wanted]
        run_worker(worker_arguments(settings, queues, options))


def worker_arguments(settings: Settings, queues: list[QueueSpec], options: dict[str, Any]) -> list[str]:
    """Return the arguments of Celery's worker command.

    Args:
        queues: one for a dedicated worker, or several, most urgent first.
        options: the command's options; None where not given.
    """
    first = queues[0]
    is_dedicated = len(queues) == 1
    is_everything = len(queues) == len(settings.queue_table)
    spec = settings.queue_table[settings.default_queue] if is_everything and not is_dedicated else first
    processes = spec.processes if options.get("processes") is None else options["processes"]
    # A shared worker reserves one message a process: what it holds back would overtake what is urgent.
    prefetch = options.get("prefetch") or (spec.prefetch if is_dedicated else 1)
    names = "all" if is_everything else "-".join(queue.name for queue in queues)
    name = options.get("name") or f"{names}@{socket.gethostname()}"
    return [
        # no banner: `worker ready` says what matters
        "--quiet",
        "worker",
        f"--queues={','.join(queue.name for queue in queues)}",
        f"--concurrency={processes}",
        f"--prefetch-multiplier={prefetch}",
        f"--pool={options.get('pool') or 'prefork'}",
        f"--hostname={name}",
        f"--loglevel={settings.log_level}",
        "--task-events",
        # Chatter between workers that nothing here needs (c#6089).
        "--without-gossip",
        "--without-mingle",
    ]


def run_worker(arguments: list[str]) -> None:
    """Run Celery's worker in this process; returns when it has stopped."""
    from celery import current_app
    from celery.platforms import SecurityWarning

    # Celery's seven lines about root say nothing to a developer; in production `doctor` and the image do.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    current_app.worker_main(arguments)
