"""`manage.py claims`: who holds which lock, what is done already, and releasing what is stuck."""

from __future__ import annotations

import getpass
import json
import socket
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
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
from taskyard.wording import utc

# the key last and whole: it is as long as it is, and is copied into `claims release`
LINE = "{:<5}  {:<19}  {:>8}  {:>10}  {}"
HEADING = LINE.format("state", "since (UTC)", "ends in", "duplicates", "claim")
MARGIN = " " * 7


class Command(BaseCommand):
    """Shows and releases the claims of singletons, idempotent tasks and unique calls, for the whole fleet."""

    help = "Look at the claims of singletons, idempotent tasks and unique calls; release one by hand."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        listing = actions.add_parser("list", help="who holds what since when; the longest-held first")
        listing.add_argument("--kind", choices=KINDS, default="", help="only these")
        listing.add_argument("--task", default="", help="only those of this task")
        listing.add_argument("--prefix", default="", help="only keys that begin so, as in singleton:orders.")
        which = listing.add_mutually_exclusive_group()
        which.add_argument(
            "--state", choices=STATES, default="held", help="held, or done and remembered; held"
        )
        which.add_argument(
            "--all",
            dest="state",
            action="store_const",
            const=None,
            help="what is held and what is remembered",
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
            self.stdout.write(_nothing_there(options["state"]))
            return
        self.stdout.write(HEADING)
        for shown_claim in claims:
            self.stdout.write("\n".join(_lines(shown_claim)))
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


def _nothing_there(state: str | None) -> str:
    if state == "held":
        return "No claim is held there; `claims list --all` shows what is remembered as done, too."
    return f"No claim is {'held or remembered' if state is None else 'remembered'} there."


def _lines(shown_claim: ShownClaim) -> Iterator[str]:
    claim = shown_claim.claim
    yield LINE.format(
        claim.state, utc(shown_claim.since), shown_claim.ends_in, str(claim.duplicates), claim.key
    )
    task_id, worker = claim.holder.get("task_id"), claim.holder.get("worker")
    where = f" on {worker}" if worker else ""
    if task_id or worker:
        yield f"{MARGIN}by {task_id or 'a task'}{where}"
