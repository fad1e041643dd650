"""`manage.py breakers`: look at the circuit breakers, open one by hand, close one."""

from __future__ import annotations

import getpass
import json
import socket
from argparse import ArgumentParser
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from taskyard.breakers.guard import announce
from taskyard.breakers.state import BreakerState
from taskyard.breakers.store import BreakerStore, breaker_store
from taskyard.clock import SYSTEM_CLOCK
from taskyard.conf import get_settings
from taskyard.errors import ConfigurationError, StateUnavailableError, did_you_mean
from taskyard.observe.quiet import quiet_kit

COLUMNS = ("breaker", "state", "since", "calls", "failed", "parked", "next probe", "why")


class Command(BaseCommand):
    """Shows and changes the circuit breakers, for the whole fleet."""

    help = "Look at the circuit breakers, open one by hand until it is reset, close one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="state, calls and failures in the window, parked runs, next probe")
        reset = actions.add_parser("reset", help="close a breaker and forget what it has counted")
        reset.add_argument("name")
        opening = actions.add_parser("open", help="park all tasks of a breaker until it is reset")
        opening.add_argument("name")
        opening.add_argument("--why", required=True, help="the reason, for the others")
        for action in (reset, opening):
            action.add_argument("--who", help="who asks for it; you@host when not given")
        for action in actions.choices.values():
            action.add_argument("--json", action="store_true", help="for machines")

    def handle(self, *_: Any, **options: Any) -> None:
        act: Callable[..., None] = getattr(self, f"_{options['action']}")
        try:
            with quiet_kit(verbosity=options["verbosity"]):
                act(breaker_store(get_settings()), options)
        except (ConfigurationError, StateUnavailableError) as error:
            raise CommandError(str(error)) from error

    def _list(self, store: BreakerStore, options: dict[str, Any]) -> None:
        states = store.overview()
        if options["json"]:
            self.stdout.write(json.dumps([state.as_dict() for state in states], indent=2))
            return
        if not states:
            self.stdout.write("No breaker is open, and none had a call within the last hour.")
            return
        table = [COLUMNS, *map(_row, states)]
        widths = [max(len(row[column]) for row in table) for column in range(len(COLUMNS))]
        for row in table:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
            self.stdout.write("  ".join(cells).rstrip())

    def _reset(self, store: BreakerStore, options: dict[str, Any]) -> None:
        name = options["name"]
        change = store.reset(name, who=_who(options))
        if change is None:
            names = [state.name for state in store.overview()]
            raise CommandError(
                f"Nothing is known of the breaker {name!r}: it is closed.{did_you_mean(name, names)} "
                "See `breakers list`."
            )
        announce(change)
        text = f"{name} was {change.before} and is closed. Its parked tasks come back one after the other."
        self._tell(options, {"name": name, "before": change.before, "after": "closed"}, text)

    def _open(self, store: BreakerStore, options: dict[str, Any]) -> None:
        name = options["name"]
        names = [state.name for state in store.overview()]
        change = store.force_open(name, why=options["why"], who=_who(options))
        announce(change)
        text = f"{name} is open until `breakers reset {name}`: its tasks are parked, what runs goes on."
        if name not in names:
            text += f" No call has used this name within the last hour.{did_you_mean(name, names)}"
        self._tell(options, {"name": name, "before": change.before, "after": "forced_open"}, text)

    def _tell(self, options: dict[str, Any], values: dict[str, Any], text: str) -> None:
        self.stdout.write(json.dumps(values) if options["json"] else text)


def _who(options: dict[str, Any]) -> str:
    return options["who"] or f"{getpass.getuser()}@{socket.gethostname()}"


def _row(state: BreakerState) -> tuple[str, ...]:
    rate, probe = state.failure_rate, state.next_probe_in_seconds
    if state.state == "forced_open":
        why = f"by {state.forced_by}: {state.forced_because}"
    else:
        why = f"last error {state.last_error}" if state.last_error else ""
    return (
        state.name,
        state.state.replace("_", " "),
        _age(state.since),
        str(state.calls),
        "" if rate is None else f"{rate:.0%}",
        str(state.parked) if state.state != "closed" else "",
        f"{state.probes} running" if state.probes else "" if probe is None else _moment(probe),
        why,
    )


def _moment(seconds: float) -> str:
    return f"in {seconds:.0f} s" if seconds > 0 else "with the next run"


def _age(since: float | None) -> str:
    if since is None:
        return ""
    # by the server's clock, which may be ahead
    seconds = max(0.0, SYSTEM_CLOCK.now().timestamp() - since)
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%d %H:%M")
