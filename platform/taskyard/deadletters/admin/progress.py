"""How far a bulk replay is, and what became of its sample."""

from __future__ import annotations

from typing import Any

from taskyard.deadletters.bulk import ACTIVE
from taskyard.deadletters.bulk_outcome import (
    Level,
    Sampled,
    back_sentence,
    came_back_count,
    came_back_text,
    level_of,
    sample_of,
)
from taskyard.deadletters.models import BulkReplay
from taskyard.wording import counted

State = BulkReplay.State
_OVER = (State.DONE, State.STOPPED)


def progress_of(bulk: BulkReplay) -> dict[str, Any]:
    """Return what the progress page shows and its script asks for; JSON-native."""
    dealt_with = min(bulk.replayed + bulk.failed, bulk.total)
    rest = bulk.total - dealt_with
    came_back = came_back_count(bulk)
    sample_back = sum(row.came_back is not None for row in sample_of(bulk))
    level = level_of(bulk, came_back)
    return {
        "state": bulk.state,
        "state_text": _state_text(bulk, came_back, level),
        # what the figures alone do not show
        "page": f"{bulk.state} {sample_back} {level}",
        "level": level,
        # what came back has the same cause as before: the rest would come back, too
        "should_stop": level == "bad",
        "is_moving": bulk.state in ACTIVE,
        "is_watched": bulk.state not in _OVER,
        "is_over": bulk.state == State.DONE,
        "can_go_on": bulk.state in (State.WAITING, State.STOPPED),
        "can_stop": bulk.state not in _OVER,
        "sample": bulk.sample,
        "total": bulk.total,
        "dealt_with": bulk.total if bulk.state == State.DONE else dealt_with,
        "rest_text": f"{rest:,}",
        "total_text": f"{bulk.total:,}",
        "replayed_text": f"{bulk.replayed:,}",
        "failed_text": f"{bulk.failed:,}",
        "came_back_text": came_back_text(came_back),
        "last_error": bulk.last_error if bulk.state != State.DONE or bulk.failed else "",
    }


def sample_sentence(sample: list[Sampled]) -> str:
    """Return `5 replayed, 2 failed again, 3 not back`."""
    failed = sum(row.came_back is not None for row in sample)
    if failed in (0, len(sample)):
        return f"{len(sample)} replayed, {'all failed again' if failed else 'none is back'}"
    return f"{len(sample)} replayed, {failed} failed again, {len(sample) - failed} not back"


def _state_text(bulk: BulkReplay, came_back: int, level: Level) -> str:
    rest = max(bulk.total - bulk.replayed - bulk.failed, 0)
    back = back_sentence(bulk, came_back)
    match bulk.state:
        case State.SAMPLING:
            return f"Replaying the sample of {counted(bulk.sample, 'letter', 'letters')}."
        case State.WAITING:
            return _waiting_text(back, level)
        case State.RUNNING:
            text = f"Replaying: {counted(rest, 'letter', 'letters')} to go"
        case State.STOPPED:
            text = f"Stopped: {counted(rest, 'letter', 'letters')} left alone"
        case _:
            text = "Done"
    return f"{text}; {back}." if came_back else f"{text}."


def _waiting_text(back: str, level: Level) -> str:
    told = f"The sample is replayed: {back}." if back else "Nothing of the sample could be replayed."
    if level == "bad":
        return f"{told} Stop: the rest would most likely fail, too."
    return f"{told} Look at what becomes of it, then go on with the rest or stop."
