"""What the command takes: the same filters for every action, times as people write them."""

from __future__ import annotations

import getpass
import json
import re
import socket
from argparse import ArgumentParser, ArgumentTypeError
from datetime import UTC, datetime, timedelta
from typing import Any

from taskyard.clock import SYSTEM_CLOCK
from taskyard.deadletters import bulk
from taskyard.deadletters.filters import DeadLetterFilter
from taskyard.deadletters.fingerprints import full_fingerprint
from taskyard.deadletters.models import DeadLetter
from taskyard.errors import DeadLetterError

_AGO = re.compile(r"(?P<number>\d+)(?P<unit>[mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
ANY_STATUS = "any"
MAX_NUMBER = 1_000_000


def moment(text: str, *, now: datetime | None = None) -> datetime:
    """Return the time that a person means: `2h` ago, `2026-03-01`, `2026-03-01T12:00`; without a zone, UTC.

    Raises:
        ArgumentTypeError: it is no time.
    """
    ago = _AGO.fullmatch(text)
    if ago is not None:
        span = timedelta(**{_UNITS[ago["unit"]]: int(ago["number"])})
        return (SYSTEM_CLOCK.now() if now is None else now) - span
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(
            f"{text!r} is no time: write 30m, 2h, 3d, 2026-03-01 or 2026-03-01T12:00"
        ) from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def json_list(text: str) -> list[Any]:
    """Return the list of a JSON text.

    Raises:
        ArgumentTypeError: it is not JSON, or no list.
    """
    value = _json_value(text)
    if not isinstance(value, list):
        raise ArgumentTypeError('not a JSON list, as in [17, "EUR"]')
    return value


def json_object(text: str) -> dict[str, Any]:
    """Return the object of a JSON text.

    Raises:
        ArgumentTypeError: it is not JSON, or no object.
    """
    value = _json_value(text)
    if not isinstance(value, dict):
        raise ArgumentTypeError('not a JSON object, as in {"currency": "EUR"}')
    return value


def _json_value(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ArgumentTypeError("nested too deeply") from None
    except ValueError as error:
        raise ArgumentTypeError(f"not JSON: {error}") from None


def add_filters(parser: ArgumentParser, *, has_status: bool) -> None:
    """Add the filters.

    Args:
        has_status: False where only one status makes sense.
    """
    group = parser.add_argument_group("filters")
    group.add_argument("--queue", help="from this queue")
    group.add_argument("--task", help="of this task")
    group.add_argument("--reason", help=f"one of: {', '.join(DeadLetter.Reason.values)}")
    group.add_argument("--fingerprint", help="of this fault, as `groups` shows it; its first 6 digits do")
    group.add_argument(
        "--since", type=moment, help="written at or after: 2h (ago), 3d, 2026-03-01T12:00 (UTC)"
    )
    group.add_argument("--until", type=moment, help="written before")
    group.add_argument(
        "--search", help="a task id or correlation id, or a part of the error or the arguments"
    )
    if has_status:
        statuses = ", ".join([*DeadLetter.Status.values, ANY_STATUS])
        group.add_argument(
            "--status", default=DeadLetter.Status.OPEN.value, help=f"one of: {statuses} (open)"
        )


def add_choice(parser: ArgumentParser) -> None:
    """Add what chooses the letters of an action: ids, filters, or all."""
    parser.add_argument("ids", nargs="*", type=int, metavar="ID", help="these dead letters")
    add_filters(parser, has_status=False)
    parser.add_argument("--all", action="store_true", help="without a filter: all of them")
    add_consent(parser)
    add_who(parser)


def add_consent(parser: ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def add_who(parser: ArgumentParser) -> None:
    parser.add_argument("--who", help="who does it, for the audit; you@host when not given")


def filter_of(options: dict[str, Any], *, status: str | None = None) -> DeadLetterFilter:
    """Return the filter of the options.

    Args:
        status: the only one that makes sense; None where the options say it.

    Raises:
        DeadLetterError: a value that no dead letter can have.
    """
    wanted = options.get("status", DeadLetter.Status.OPEN.value) if status is None else status
    names = ("queue", "task", "reason", "fingerprint", "since", "until", "search")
    given = {name: options[name] for name in names if options.get(name) is not None}
    if "fingerprint" in given:
        given["fingerprint"] = full_fingerprint(given["fingerprint"])
    return DeadLetterFilter(
        **given,
        status=None if wanted == ANY_STATUS else wanted,
        ids=tuple(options["ids"]) if options.get("ids") else None,
    )


def choice_of(options: dict[str, Any], *, status: str) -> DeadLetterFilter:
    """Return the filter of an action, which must choose something.

    Raises:
        DeadLetterError: neither ids nor a filter nor --all is given.
    """
    chosen = filter_of(options, status=status)
    if chosen == DeadLetterFilter(status=status) and not options["all"]:
        raise DeadLetterError(
            f"`deadletters {options['action']}` was not told which. Give ids or filters, or --all for every "
            f"one that is {status}."
        )
    return chosen


def number(text: str) -> int:
    """Return the number, 1 to a million."""
    value = int(text)
    if not 1 <= value <= MAX_NUMBER:
        raise ArgumentTypeError(f"{value} is not 1 to {MAX_NUMBER:,}")
    return value


def sample(text: str) -> int:
    """Return the size of a sample, 0 or more."""
    value = int(text)
    if not 0 <= value <= bulk.MAX_SAMPLE:
        raise ArgumentTypeError(f"{value} is not 0 to {bulk.MAX_SAMPLE:,}")
    return value


def rate(text: str) -> float:
    """Return the rate a second."""
    value = float(text)
    if not bulk.MIN_RATE <= value <= bulk.MAX_RATE:
        raise ArgumentTypeError(f"{value:g} is not {bulk.MIN_RATE:g} to {bulk.MAX_RATE:g}")
    return value


def days(text: str) -> float:
    """Return the days, 0 or more."""
    value = float(text)
    if not 0 <= value < 1_000_000:
        raise ArgumentTypeError(f"{value:g} is not a number of days, 0 or more")
    return value


def who(options: dict[str, Any]) -> str:
    return options.get("who") or f"{getpass.getuser()}@{socket.gethostname()}"
