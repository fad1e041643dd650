"""`manage.py claims`: who holds which lock, what is done already, and releasing what is stuck."""

from __future__ import annotations

import getpass
import json
import socket
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from taskyard.errors import StateUnavailableError, did_you_mean
from taskyard.observe.quiet import quiet_kit
from taskyard.operations.claims import (
    KINDS,
    LIMIT,
    STATES,
    ShownClaim,
    find_claims,
    project_store,
    release_claim,
    shown,
)
from taskyard.state import StateStore

COLUMNS = ("kind", "task", "key", "state", "by task", "on", "since (UTC)", "ends in", "duplicates")


class Command(BaseCommand):
    """Shows and releases the claims of singletons, idempotent tasks and unique calls, for the whole fleet."""

    help = "Look at the claims of singletons, idempotent tasks and unique calls; release one by hand."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        listing = actions.add_parser("list", help="key, state, holder, since, end, duplicates; oldest first")
        listing.add_argument("--kind", choices=KINDS, default="", help="only these")
        listing.add_argument("--task", default="", help="only those of this task")
        listing.add_argument("--prefix", default="", help="only keys that begin so, as in singleton:orders.")
        listing.add_argument(
            "--state", choices=STATES, help="held, or done and remembered; both if not given"
        )
        listing.add_argument("--limit", type=int, default=LIMIT, help=f"at most so many; {LIMIT}")
        release = actions.add_parser("release", help="free a claim, whoever holds it")
        release.add_argument("key", help="KIND:TASK:KEY, as `claims list` shows it")
        release.add_argument("--who", help="who asks for it; you@host when not given")
        release.add_argument("--yes", action="store_true", help="do not ask")
        for action in actions.choices.values():
            action.add_argument("--json", action="store_true", help="for machines")

    def handle(self, *_: Any, **options: Any) -> None:
        act: Callable[..., None] = getattr(self, f"_{options['action']}")
        try:
            with quiet_kit(verbosity=options["verbosity"]):
                act(project_store(), options)
        except StateUnavailableError as error:
            raise CommandError(str(error)) from error

    def _list(self, store: StateStore, options: dict[str, Any]) -> None:
        chosen = {name: options[name] for name in ("kind", "task", "prefix", "state", "limit")}
        claims = find_claims(store, **chosen)
        if options["json"]:
            self.stdout.write(json.dumps([claim.as_dict() for claim in claims], indent=2))
            return
        if not claims:
            self.stdout.write("No claim is held or remembered there.")
            return
        table = [COLUMNS, *map(_row, claims)]
        widths = [max(len(row[column]) for row in table) for column in range(len(COLUMNS))]
        for row in table:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
            self.stdout.write("  ".join(cells).rstrip())
        if len(claims) == options["limit"]:
            self.stdout.write(f"These are the oldest {len(claims)}; --limit shows more.")

    def _release(self, store: StateStore, options: dict[str, Any]) -> None:
        key = options["key"]
        claim = store.read(key)
        if claim is None:
            kind = key.partition(":")[0]
            known = [found.claim.key for found in find_claims(store, kind=kind if kind in KINDS else "")]
            raise CommandError(f"The claim {key!r} is free.{did_you_mean(key, known)} See `claims list`.")
        self._confirm(shown(claim), options)
        released = release_claim(store, key, who=_who(options), fence=claim.fence)
        if released is None:
            raise CommandError(f"The claim {key!r} has another holder by now, or none. Nothing was released.")
        if options["json"]:
            self.stdout.write(json.dumps({"released": released.as_dict()}))
        else:
            self.stdout.write(f"{key} is free. It was {released.held_by}.")

    def _confirm(self, claim: ShownClaim, options: dict[str, Any]) -> None:
        if options["yes"]:
            return
        what = f"{claim.claim.key} is {claim.held_by}. {claim.consequence}"
        if options["json"]:
            raise CommandError(f"{what} Say so with --yes.")
        if input(f"{what}\nRelease it? Type yes: ").strip() != "yes":
            raise CommandError("Nothing was released.")


def _who(options: dict[str, Any]) -> str:
    return options["who"] or f"{getpass.getuser()}@{socket.gethostname()}"


def _row(shown_claim: ShownClaim) -> tuple[str, ...]:
    claim = shown_claim.claim
    return (
        shown_claim.kind,
        shown_claim.task,
        shown_claim.key,
        claim.state,
        str(claim.holder.get("task_id") or ""),
        str(claim.holder.get("worker") or ""),
        f"{shown_claim.since:%Y-%m-%d %H:%M:%S}",
        shown_claim.ends_in,
        str(claim.duplicates),
    )
