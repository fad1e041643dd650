"""The actions that change something: each says what it would do, and asks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError

from taskyard.conf import get_settings
from taskyard.deadletters import bulk, discard, groups
from taskyard.deadletters.console import arguments, records
from taskyard.deadletters.console.output import Output, letters_text
from taskyard.deadletters.filters import DeadLetterFilter
from taskyard.deadletters.models import DeadLetter
from taskyard.deadletters.replay import replay as replay_one
from taskyard.deadletters.replay_message import call_of
from taskyard.deadletters.retention import purge_resolved, purgeable
from taskyard.errors import DeadLetterError

OPEN, DISCARDED = DeadLetter.Status.OPEN.value, DeadLetter.Status.DISCARDED.value


def replay(options: dict[str, Any], output: Output) -> None:
    chosen = arguments.choice_of(options, status=OPEN)
    given = {"args": options["new_args"], "kwargs": options["new_kwargs"]}
    edits = {name: value for name, value in given.items() if value is not None}
    if edits and len(options["ids"]) != 1:
        raise CommandError("--args and --kwargs are for one dead letter. Give its id.")
    if options["ids"]:
        _replay_ids(options, output, edits)
        return
    first = f", {options['sample']} of them first" if options["sample"] else ""
    if not _chosen_number(options, output, chosen, f"Replay {{}}{first}?"):
        return
    started = bulk.start_bulk_replay(
        chosen, actor=arguments.who(options), sample=options["sample"], rate_per_second=options["rate"]
    )
    number = started.pk
    output.tell(
        records.bulk_record(started),
        f"Bulk replay {number} has begun; a worker of the queue low does it. Look at "
        f"`deadletters replays {number}`, then `deadletters go-on {number}` or `deadletters stop {number}`.",
    )


def go_on(options: dict[str, Any], output: Output) -> None:
    row = bulk.go_on(options["id"], arguments.who(options))
    output.tell(records.bulk_record(row), f"Bulk replay {row.pk} goes on, {row.rate_per_second:g} a second.")


def stop(options: dict[str, Any], output: Output) -> None:
    row = bulk.stop(options["id"], arguments.who(options))
    output.tell(records.bulk_record(row), f"Bulk replay {row.pk} is stopped, {row.replayed:,} are replayed.")


def discard_letters(options: dict[str, Any], output: Output) -> None:
    chosen = arguments.choice_of(options, status=OPEN)
    if _chosen_number(options, output, chosen, "Discard {}?"):
        count = discard.discard(chosen, actor=arguments.who(options), reason=options["because"])
        output.tell({"discarded": count}, f"{letters_text(count)} discarded.")


def reopen(options: dict[str, Any], output: Output) -> None:
    chosen = arguments.choice_of(options, status=DISCARDED)
    if _chosen_number(options, output, chosen, "Open {} again?"):
        count = discard.reopen(chosen, actor=arguments.who(options))
        output.tell({"reopened": count}, f"{letters_text(count)} opened again.")


def purge(options: dict[str, Any], output: Output) -> None:
    days = options["older_than"]
    if days is None:
        days = get_settings().dead_letter_retention_days
    older_than = timedelta(days=days)
    total = purgeable(older_than=older_than).count()
    if _agreed(options, output, total, f"Delete {letters_text(total)}, resolved over {days:g} days ago?"):
        count = purge_resolved(older_than=older_than)
        output.tell({"purged": count}, f"{letters_text(count)} deleted.")


def _replay_ids(options: dict[str, Any], output: Output, edits: dict[str, Any]) -> None:
    results = [_replay_id(pk, options, edits) for pk in options["ids"]]
    if output.is_json:
        output.write(results)
    for result in () if output.is_json else results:
        if "error" in result:
            output.complain(result["error"])
        elif options["dry_run"]:
            output.screen.say(f"Dead letter {result['id']} would be replayed: {result['task']}.")
        else:
            output.screen.say(f"Dead letter {result['id']} is replayed as task {result['task_id']}.")
    failed = sum("error" in result for result in results)
    if failed:
        raise CommandError(f"{failed} of {len(results)} cannot be replayed.", returncode=1)


def _replay_id(pk: int, options: dict[str, Any], edits: dict[str, Any]) -> dict[str, Any]:
    try:
        if not options["dry_run"]:
            return {"id": pk, "task_id": replay_one(pk, actor=arguments.who(options), **edits)}
        letter = DeadLetter.objects.filter(pk=pk, status=OPEN).first()
        if letter is None:
            raise DeadLetterError(f"Dead letter {pk} does not exist or is not open.")
        call_of(letter, **edits)
        return {"id": pk, "task": letter.task_name}
    except DeadLetterError as error:
        return {"id": pk, "error": str(error)}


def _chosen_number(options: dict[str, Any], output: Output, chosen: DeadLetterFilter, question: str) -> int:
    """Return how many letters are chosen if the person agrees; else 0."""
    total = groups.count_letters(chosen)
    text = question.format(letters_text(total, chosen.status))
    return total if _agreed(options, output, total, text) else 0


def _agreed(options: dict[str, Any], output: Output, total: int, question: str) -> bool:
    if not total:
        output.tell({"matching": 0}, "No dead letter matches: nothing to do.")
        return False
    if options["dry_run"]:
        output.tell({"matching": total}, f"{question.rstrip('?')}: that would be done without --dry-run.")
        return False
    if options["yes"]:
        return True
    if output.is_json:
        raise CommandError(f"{question} Say so with --yes.")
    if _answer(f"{question} Type the number {total} to go on: ") != str(total):
        raise CommandError("Nothing was done.")
    return True


def _answer(question: str) -> str:
    try:
        return input(question).replace(",", "").strip()
    except EOFError:  # nobody there
        return ""
