"""`manage.py deadletters`: find, read, replay, discard and purge dead letters."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from taskyard.deadletters.console import arguments, changing, looking
from taskyard.deadletters.console.output import Output
from taskyard.errors import TaskyardError
from taskyard.observe.quiet import quiet_kit

ACTIONS: dict[str, Callable[[dict[str, Any], Output], None]] = {
    "list": looking.list_letters,
    "groups": looking.list_groups,
    "show": looking.show,
    "replay": changing.replay,
    "replays": looking.list_bulk_replays,
    "go-on": changing.go_on,
    "stop": changing.stop,
    "discard": changing.discard_letters,
    "reopen": changing.reopen,
    "purge": changing.purge,
}


class Command(BaseCommand):
    """Does on the command line what the admin does, with the same filters and the same audit."""

    help = (
        "Find, read, replay, discard and purge dead letters: the tasks that will not run again by themselves."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        listing = actions.add_parser("list", help="dead letters, the newest first")
        grouped = actions.add_parser("groups", help="faults, with the number of their dead letters")
        for listed in (listing, grouped):
            arguments.add_filters(listed, has_status=True)
            listed.add_argument("--limit", type=arguments.number, default=20, help="at most so many (20)")
        grouped.add_argument(
            "--order",
            choices=["count", "last_seen"],
            default="count",
            help="the most first, or the newest (count)",
        )
        show = actions.add_parser("show", help="everything about one")
        show.add_argument("id", type=int)
        show.add_argument(
            "--reveal", action="store_true", help="what is encrypted, too; the audit keeps that"
        )
        arguments.add_who(show)
        self._add_replays(actions)
        discard = actions.add_parser("discard", help="decide that they need not run")
        arguments.add_choice(discard)
        discard.add_argument(
            "--because", "--why", dest="because", required=True, help="the reason, for those who wonder later"
        )
        arguments.add_choice(actions.add_parser("reopen", help="open discarded ones again"))
        purge = actions.add_parser("purge", help="delete what was replayed or discarded long ago")
        purge.add_argument(
            "--older-than", type=arguments.days, help="days; DEAD_LETTER_RETENTION_DAYS when not given"
        )
        arguments.add_consent(purge)
        for action in actions.choices.values():
            action.add_argument("--json", action="store_true", help="for machines; asks nothing")

    def _add_replays(self, actions: Any) -> None:
        replay = actions.add_parser("replay", help="publish again: ids at once; by filter, a sample first")
        arguments.add_choice(replay)
        replay.add_argument(
            "--args", dest="new_args", type=arguments.json_list, help="others, a JSON list; for one id"
        )
        replay.add_argument(
            "--kwargs",
            dest="new_kwargs",
            type=arguments.json_object,
            help="others, a JSON object; for one id",
        )
        replay.add_argument(
            "--sample", type=arguments.sample, default=5, help="by filter: so many first, then wait (5)"
        )
        replay.add_argument(
            "--rate", type=arguments.rate, default=10.0, help="by filter: so many a second (10)"
        )
        replays = actions.add_parser("replays", help="bulk replays, how far they are, and what came back")
        replays.add_argument("id", type=int, nargs="?", help="only this one, with its sample")
        for name, text in (("go-on", "replay the rest after the sample"), ("stop", "stop a bulk replay")):
            change = actions.add_parser(name, help=text)
            change.add_argument("id", type=int, help="of the bulk replay")
            arguments.add_who(change)

    def handle(self, *_: Any, **options: Any) -> None:
        output = Output(self.stdout, self.stderr, is_json=options["json"])
        try:
            with quiet_kit(verbosity=options["verbosity"]):
                ACTIONS[options["action"]](options, output)
        except TaskyardError as error:
            raise CommandError(str(error)) from error
