"""What a probe console can do with dead letters, as the admin and the command do it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import connections, transaction

from taskyard.deadletters.bulk import go_on, start_bulk_replay, stop
from taskyard.deadletters.filters import DeadLetterFilter
from taskyard.deadletters.models import BulkReplay
from taskyard.deadletters.replay import replay
from taskyard.errors import DeadLetterError
from tests.probe_app import endings


def replay_dead_letter(letter_id: int) -> str:
    """Replay one, and return the id of the new task."""
    return replay(letter_id, actor="console")


def replay_at_once(letter_id: int, clicks: int) -> list[str]:
    """Replay one from so many threads; return the ids of new tasks, or what the others were told."""

    def click(_: int) -> str:
        try:
            return replay(letter_id, actor="console")
        except DeadLetterError as error:
            return str(error)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(clicks) as pool:
        return list(pool.map(click, range(clicks)))


def replay_in_transaction(letter_id: int, *, commits: bool) -> dict[str, Any]:
    """Replay one inside a transaction; say what was waiting before its end and after."""
    from tests.probe_app.actions import PlannedError, waiting

    found: dict[str, Any] = {}
    try:
        with transaction.atomic():
            found["task_id"] = replay(letter_id, actor="console")
            found["waiting_inside"] = waiting()
            if not commits:
                raise PlannedError
    except PlannedError:
        pass
    return found | {"waiting_after": waiting()}


def fail_eagerly_in_transaction(key: str) -> str:
    """Run a failing task in this process, inside a transaction that is rolled back; return its id."""
    with transaction.atomic():
        result = endings.end_at_once.apply((key,))
        transaction.set_rollback(True)
    return str(result.id)


def replay_all(chosen: dict[str, Any], sample: int, rate: float) -> int:
    """Begin a bulk replay, and return its number."""
    return start_bulk_replay(
        DeadLetterFilter.from_dict(chosen), actor="console", sample=sample, rate_per_second=rate
    ).pk


def replay_the_rest(bulk_id: int) -> None:
    go_on(bulk_id, "console")


def stop_replaying(bulk_id: int) -> None:
    stop(bulk_id, "console")


def bulk_state(bulk_id: int) -> dict[str, Any]:
    """Return how far a bulk replay is."""
    row = BulkReplay.objects.get(pk=bulk_id)
    return {"state": row.state, "replayed": row.replayed, "failed": row.failed, "total": row.total}
