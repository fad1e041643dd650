"""Dead letters, faults and bulk replays for people: a line to find it, a line to see what it is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from taskyard.deadletters.bulk_outcome import COUNT_CAP
from taskyard.deadletters.changes import change_text
from taskyard.deadletters.groups import FaultGroup
from taskyard.deadletters.header_texts import header_texts
from taskyard.deadletters.models import BulkReplay, DeadLetter
from taskyard.wording import from_epoch, utc

_LETTER = "{:>9}  {:<19}  {:<9} {:<17}  {}"
_GROUP = "{:>9}  {:<19}  {:<9} {:<17}  {}"
_MARGIN = " " * 11


class Screen:
    """Writes to a terminal, or without colours to a file.

    Args:
        console: where.
    """

    def __init__(self, console: Console) -> None:
        self._console = console

    def letters(self, letters: Iterable[DeadLetter]) -> None:
        self._heading(_LETTER.format("id", "written (UTC)", "queue", "reason", "task"))
        for letter in letters:
            task = letter.task_name or "(no task)"
            status = "" if letter.status == DeadLetter.Status.OPEN else f"  [{letter.get_status_display()}]"
            self._line(
                _LETTER.format(letter.pk, utc(letter.created_at), letter.queue, letter.reason, task) + status
            )
            self._detail(_first_line(letter.error))

    def groups(self, groups: Iterable[FaultGroup]) -> None:
        self._heading(_GROUP.format("count", "last seen (UTC)", "queue", "reason", "task"))
        for group in groups:
            queues = group.queues[0] if len(group.queues) == 1 else f"{len(group.queues)} queues"
            task = group.task_name or "(no task)"
            count = f"{group.count:,}"
            self._line(_GROUP.format(count, utc(group.last_seen), queues, group.reason, task))
            place = f"  {group.error_place}" if group.error_place else ""
            self._detail(f"{group.fingerprint}  since {utc(group.first_seen)}{place}")
            self._detail(_first_line(group.sample_error))

    def letter(self, record: Mapping[str, Any]) -> None:
        """Write all of a letter, from its record."""
        task = record["task_name"] or "(no task)"
        self._heading(f"Dead letter {record['id']}: {task}, {record['reason']}, {record['status']}")
        self._pairs(
            {
                "written": f"{_utc_of(record['created_at'])} UTC",
                "task id": record["task_id"],
                "correlation id": record["correlation_id"],
                "queue, priority": f"{record['queue']}, {record['priority']}",
                "worker": record["worker"],
                "fingerprint": record["fingerprint"],
                "fault": f"{record['error_type']} at {record['error_place']}".removesuffix(" at "),
                "encrypted": "more than this is stored; --reveal shows it" if record["is_sealed"] else "",
                "then": _short_json(record["canvas"]) if record["canvas"] else "",
                "replay of": record["replay_of_id"],
                "replayed as": record["replay_task_id"],
            }
        )
        self._heading("Arguments")
        self._pairs({argument["name"]: argument["text"] for argument in record["arguments"]}, none="none")
        self._heading("Headers")
        self._pairs(dict(header_texts(record["headers"])), none="none")
        self._attempts(record["attempts"])
        self._heading("Error")
        self._line(record["traceback"].rstrip() or record["error"], wraps=True)
        if record["actions"]:
            self._heading("What was done with it")
        for action in record["actions"]:
            detail = f"  {_detail_text(action['detail'])}" if action["detail"] else ""
            self._line(
                f"{_utc_of(action['at'])}  {action['actor']}: {action['kind']}{detail}",
                wraps=True,
            )

    def revealed(self, record: Mapping[str, Any]) -> None:
        """Write what is encrypted."""
        self._heading("Encrypted")
        self._pairs(
            {name: value if name == "message" else _short_json(value) for name, value in record.items()}
        )

    def bulk_replays(self, bulks: Iterable[BulkReplay], *, came_back: Mapping[int, int]) -> None:
        """Write a line for each, and one with what it replays.

        Args:
            came_back: by the id of the bulk replay, how many are dead letters again.
        """
        line = "{:>5}  {:<19}  {:<8}  {:>9} of {:>9}  {:>8}  {:>9}  {}"
        self._heading(
            line.format("id", "started (UTC)", "state", "replayed", "total", "not sent", "came back", "by")
        )
        for bulk in bulks:
            back = came_back[bulk.pk]
            back_text = f">{COUNT_CAP:,}" if back > COUNT_CAP else f"{back:,}"
            numbers = (f"{bulk.replayed:,}", f"{bulk.total:,}", f"{bulk.failed:,}", back_text)
            self._line(line.format(bulk.pk, utc(bulk.started_at), bulk.state, *numbers, bulk.started_by))
            chosen = {name: value for name, value in bulk.filters.items() if name != "status"}
            self._detail(f"{_short_json(chosen)}, {bulk.rate_per_second:g}/s")
            if bulk.last_error:
                self._detail(_first_line(bulk.last_error))

    def sample(self, sampled: Sequence[Mapping[str, Any]]) -> None:
        """Write what became of the sample of a bulk replay."""
        if sampled:
            self._heading("The sample")
        for letter in sampled:
            became = "not among the dead letters so far: running, or done"
            if letter["came_back_as"] is not None:
                became = f"failed again, dead letter {letter['came_back_as']}: {_first_line(letter['error'])}"
            self._line(f"{letter['id']:>9}  {became}")

    def say(self, text: str) -> None:
        self._line(text, wraps=True)

    def _attempts(self, attempts: Sequence[Mapping[str, Any]]) -> None:
        if attempts:
            self._heading("Runs (UTC)")
        for attempt in attempts:
            moment = from_epoch(attempt.get("at"))
            when = "?" if moment is None else utc(moment)
            number, worker = attempt.get("number", "?"), attempt.get("worker", "")
            self._line(f"{number:>3}  {when}  {worker}  {_first_line(str(attempt.get('error', '')))}")

    def _pairs(self, pairs: Mapping[str, Any], *, none: str = "") -> None:
        if not pairs and none:
            self._line(none)
        for name, value in pairs.items():
            if value not in ("", None):
                self._line(f"{name + ':':<16} {value}", wraps=True)

    def _heading(self, text: str) -> None:
        self._print(Text(text, style="bold"))

    def _detail(self, text: str) -> None:
        if text:
            self._print(Text(f"{_MARGIN}{text}", style="dim"))

    def _line(self, text: str, *, wraps: bool = False) -> None:
        self._print(Text(text), wraps=wraps)

    def _print(self, text: Text, *, wraps: bool = False) -> None:
        if not self._console.is_terminal:
            # into a file or a pipe nothing is cut: somebody looks for it there
            self._console.print(text, soft_wrap=True)
        elif wraps:
            self._console.print(text)
        else:
            self._console.print(text, overflow="ellipsis", no_wrap=True)


def _utc_of(text: str) -> str:
    return utc(datetime.fromisoformat(text))


def _detail_text(detail: Any) -> str:
    changes = detail.get("changes") if isinstance(detail, dict) else None
    if not changes:
        return _short_json(detail)
    rest = {name: value for name, value in detail.items() if name not in ("changes", "edited")}
    return "  ".join([_short_json(rest), *map(change_text, changes)])


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _short_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
