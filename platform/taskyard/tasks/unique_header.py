"""What a message says of the comparison that it has passed: the header `unique_call`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from taskyard.tasks.latest import Call
from taskyard.tasks.run_context import header_of
from taskyard.tasks.unique import UniqueCall

HEADER = "unique_call"


@dataclass(frozen=True, slots=True)
class UniqueHeader:
    """The comparison of one message.

    Args:
        key, mode, until: see `taskyard.tasks.unique.UniqueCall`.
        call: this one, for its age.
        owner: of its claim; "" in the modes that have none.
    """

    key: str
    mode: str
    until: str
    call: Call
    owner: str = ""


def header_for(call: UniqueCall, this: Call, owner: str = "") -> dict[str, Any]:
    """Return the header's value."""
    return {
        "key": call.key,
        "mode": call.mode,
        "until": call.until,
        "at": this.at,
        "task_id": this.task_id,
        "owner": owner,
    }


def unique_header(request: Any) -> UniqueHeader | None:
    """Return what the message of a run says; None for most messages.

    None, too, for a header that was copied from another task's message, by a replay for instance.
    """
    value = header_of(request, HEADER)
    if not isinstance(value, dict):
        return None
    try:
        call = Call(float(value["at"]), str(value["task_id"]))
        found = UniqueHeader(
            str(value["key"]), str(value["mode"]), str(value["until"]), call, str(value["owner"])
        )
    except (KeyError, TypeError, ValueError):
        return None
    return found if call.task_id == request.id and found.key else None
