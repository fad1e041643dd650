"""`manage.py queues`: look at the queues, pause, resume and purge them."""

from __future__ import annotations

import getpass
import json
import socket
import time
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

import redis
from django.core.management.base import BaseCommand, CommandError

from taskyard.brokers.redis import RedisBroker
from taskyard.conf import Settings, get_settings
from taskyard.masking import mask_url
from taskyard.transport import janitor, queues

TIMEOUT_SECONDS = 5.0
COLUMNS = ("queue", "waiting", "delayed", "leased", "dead", "oldest", "consumers", "rate/s", "paused")


class Command(BaseCommand):
    """Shows and changes the state of the queues on the broker, for the whole fleet."""

    help = "Look at the queues, pause and resume them for the whole fleet, delete their messages, clean up."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        listing = actions.add_parser("list", help="depth, delayed, leased, oldest age, consumers, rate")
        listing.add_argument(
            "--rate-seconds", type=float, default=1.0, help="time over which the rate is taken; 0 for none"
        )
        pause = actions.add_parser("pause", help="stop fetching from a queue")
        pause.add_argument("queue")
        pause.add_argument("--why", required=True, help="the reason, for the others")
        pause.add_argument("--who", help="who asks for it; you@host when not given")
        actions.add_parser("resume", help="fetch again").add_argument("queue")
        purge = actions.add_parser("purge", help="delete the waiting and delayed messages of a queue")
        purge.add_argument("queue")
        purge.add_argument("--yes", action="store_true", help="do not ask")
        clean = actions.add_parser(
            "clean", help="list what dead processes have left, and with --yes remove it"
        )
        clean.add_argument("--yes", action="store_true", help="remove it")
        for action in actions.choices.values():
            action.add_argument("--json", action="store_true", help="for machines")

    def handle(self, *_: Any, **options: Any) -> None:
        settings = get_settings()
        if options.get("queue"):
            settings.queue_table.require(options["queue"], where=f"`queues {options['action']}`")
        act: Callable[..., None] = getattr(self, f"_{options['action']}")
        broker = RedisBroker(uses_sentinel=settings.effective_broker_url.startswith("sentinel"))
        try:
            with broker.client(settings, timeout_seconds=TIMEOUT_SECONDS) as client:
                act(client, settings, options)
        except redis.RedisError as error:
            url = mask_url(settings.effective_broker_url)
            why = mask_url(str(error)).rstrip(".")
            raise CommandError(f"The broker {url} does not answer: {why}. Is it running?") from error

    def _list(self, client: Any, settings: Settings, options: dict[str, Any]) -> None:
        prefix, names = settings.key_prefix, list(settings.queue_table)
        before = queues.overview(client, names, prefix=prefix)
        seconds = options["rate_seconds"]
        if seconds > 0:
            time.sleep(seconds)
        states = queues.overview(client, names, prefix=prefix) if seconds > 0 else before
        rates = [
            round((now.fetched - then.fetched) / seconds, 1) if seconds > 0 else None
            for then, now in zip(before, states, strict=True)
        ]
        if options["json"]:
            rows = [state.as_dict() | {"rate": rate} for state, rate in zip(states, rates, strict=True)]
            self.stdout.write(json.dumps(rows, indent=2))
            return
        table = [COLUMNS, *(_row(state, rate) for state, rate in zip(states, rates, strict=True))]
        widths = [max(len(row[column]) for row in table) for column in range(len(COLUMNS))]
        for row in table:
            cells = [row[0].ljust(widths[0])]
            cells += [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
            self.stdout.write("  ".join([*cells, row[-1]]).rstrip())

    def _pause(self, client: Any, settings: Settings, options: dict[str, Any]) -> None:
        who = options["who"] or f"{getpass.getuser()}@{socket.gethostname()}"
        pause = queues.pause(
            client, options["queue"], who=who, why=options["why"], prefix=settings.key_prefix
        )
        text = f"{options['queue']} is paused: running tasks go on, nothing new is fetched."
        self._tell(
            options, {"queue": options["queue"], "who": pause.who, "when": pause.when, "why": pause.why}, text
        )

    def _resume(self, client: Any, settings: Settings, options: dict[str, Any]) -> None:
        was_paused = queues.resume(client, options["queue"], prefix=settings.key_prefix)
        text = f"{options['queue']} {'is fetched again' if was_paused else 'was not paused'}."
        self._tell(options, {"queue": options["queue"], "was_paused": was_paused}, text)

    def _purge(self, client: Any, settings: Settings, options: dict[str, Any]) -> None:
        queue, prefix = options["queue"], settings.key_prefix
        count = queues.depth(client, queue, prefix=prefix) + queues.delayed(client, queue, prefix=prefix)
        if not options["yes"]:
            if options["json"]:
                raise CommandError(f"Purging {queue} deletes {count} messages for good. Say so with --yes.")
            if input(f"Delete {count} messages of {queue} for good? Type the queue's name: ") != queue:
                raise CommandError("Nothing was deleted.")
        purged = queues.purge(client, queue, prefix=prefix)
        self._tell(options, {"queue": queue, "purged": purged}, f"{purged} messages of {queue} were deleted.")

    def _clean(self, client: Any, settings: Settings, options: dict[str, Any]) -> None:
        found = janitor.find(client, prefix=settings.key_prefix)
        if options["yes"]:
            janitor.remove(client, found, prefix=settings.key_prefix)
        if options["json"]:
            rows = [{"kind": item.kind, "key": item.key, "detail": item.detail} for item in found]
            self.stdout.write(json.dumps({"removed": options["yes"], "leftovers": rows}, indent=2))
            return
        for item in found:
            self.stdout.write(f"{item.kind}: {item.key} ({item.detail})")
        self.stdout.write(
            f"{len(found)} leftovers {'removed' if options['yes'] else 'found; --yes removes them'}."
        )

    def _tell(self, options: dict[str, Any], values: dict[str, Any], text: str) -> None:
        self.stdout.write(json.dumps(values) if options["json"] else text)


def _row(state: queues.QueueState, rate: float | None) -> tuple[str, ...]:
    age = state.oldest_age_seconds
    pause = f"by {state.pause.who} since {state.pause.when}: {state.pause.why}" if state.pause else ""
    return (
        state.name,
        str(state.waiting),
        str(state.delayed),
        str(state.leased),
        str(state.dead + state.undecodable),
        "?" if age is None else f"{age:.0f} s",
        str(state.consumers),
        "" if rate is None else f"{rate:g}",
        pause,
    )
