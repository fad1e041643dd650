"""The actions that look: list, groups, show, replays."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError

from taskyard.deadletters import groups
from taskyard.deadletters.bulk_outcome import back_sentence, came_back_count, level_of
from taskyard.deadletters.console import arguments, records
from taskyard.deadletters.console.output import Output, letters_text
from taskyard.deadletters.models import BulkReplay, DeadLetter
from taskyard.deadletters.reveal import reveal

BULK_REPLAYS_SHOWN = 50


def list_letters(options: dict[str, Any], output: Output) -> None:
    chosen = arguments.filter_of(options)
    found = chosen.apply(DeadLetter.objects.order_by("-pk"), newest_first=True)
    letters = list(found.defer("traceback", "attempts", "sealed", "sealed_raw")[: options["limit"]])
    if output.is_json:
        output.write([records.letter_record(letter) for letter in letters])
        return
    if letters:
        output.screen.letters(letters)
    total = groups.count_letters(chosen)
    more = "; --limit for more, `groups` for the faults" if total > len(letters) else ""
    output.screen.say(f"{len(letters):,} of {letters_text(total, chosen.status)}{more}.")


def list_groups(options: dict[str, Any], output: Output) -> None:
    chosen = arguments.filter_of(options)
    found = groups.groups(chosen, limit=options["limit"], order=options["order"])
    if output.is_json:
        output.write([records.group_record(group) for group in found])
        return
    if found:
        output.screen.groups(found)
    shown, total = sum(group.count for group in found), groups.count_letters(chosen)
    faults = groups.count_groups(chosen)
    output.screen.say(
        f"{len(found):,} of {faults:,} {'fault' if faults == 1 else 'faults'}, {shown:,} of "
        f"{letters_text(total, chosen.status)}. Next: deadletters list --fingerprint ..."
    )


def show(options: dict[str, Any], output: Output) -> None:
    letter = DeadLetter.objects.filter(pk=options["id"]).first()
    if letter is None:
        raise CommandError(f"Dead letter {options['id']} does not exist. It may have been purged.")
    record = records.full_record(letter)
    hidden = _hidden(options) if options["reveal"] and record["is_sealed"] else None
    if output.is_json:
        output.write(record if hidden is None else record | {"revealed": hidden})
        return
    output.screen.letter(record)
    if hidden is not None:
        output.screen.revealed(hidden)


def list_bulk_replays(options: dict[str, Any], output: Output) -> None:
    if options["id"] is not None:
        _show_bulk_replay(options["id"], output)
        return
    rows = list(BulkReplay.objects.all()[:BULK_REPLAYS_SHOWN])
    if output.is_json:
        output.write([records.bulk_record(row) for row in rows])
    elif rows:
        output.screen.bulk_replays(rows, came_back={row.pk: came_back_count(row) for row in rows})
    else:
        output.screen.say("There is no bulk replay.")


def _show_bulk_replay(bulk_id: int, output: Output) -> None:
    bulk = BulkReplay.objects.filter(pk=bulk_id).first()
    if bulk is None:
        raise CommandError(f"Bulk replay {bulk_id} does not exist. `deadletters replays` lists them.")
    record = records.full_bulk_record(bulk)
    if output.is_json:
        output.write(record)
        return
    came_back = record["came_back"]
    output.screen.bulk_replays([bulk], came_back={bulk.pk: came_back})
    output.screen.sample(record["sampled"])
    sentence = back_sentence(bulk, came_back)
    if sentence:
        output.screen.say(f"{sentence[0].upper()}{sentence[1:]}.{_next_step(bulk, came_back)}")


def _next_step(bulk: BulkReplay, came_back: int) -> str:
    if bulk.state != BulkReplay.State.WAITING:
        return ""
    stop, go_on = f"deadletters stop {bulk.pk}", f"deadletters go-on {bulk.pk}"
    if level_of(bulk, came_back) == "bad":
        return f" The rest would most likely fail, too: `{stop}`; all the same: `{go_on}`."
    return f" Then `{go_on}` or `{stop}`."


def _hidden(options: dict[str, Any]) -> dict[str, Any]:
    revealed = reveal(options["id"], actor=arguments.who(options))
    hidden: dict[str, Any] = {}
    if revealed.content is not None:
        hidden = {"args": revealed.content.args, "kwargs": revealed.content.kwargs}
        hidden["canvas"] = dict(revealed.content.canvas)
    if revealed.message:
        hidden["message"] = revealed.message
    return hidden
