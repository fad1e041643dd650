"""What a probe console can be asked to do."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.test import Client

from taskyard.errors import BulkPublishError
from tests.probe_app import tasks
from tests.probe_app.exclusive_actions import die_while_publishing, publish_from_threads
from tests.probe_app.letter_actions import (
    bulk_state,
    fail_eagerly_in_transaction,
    replay_all,
    replay_at_once,
    replay_dead_letter,
    replay_in_transaction,
    replay_the_rest,
    stop_replaying,
)
from tests.probe_app.letter_plans import purge_and_measure, read_for
from tests.probe_app.long_actions import cancel, cancel_in_transaction, manage
from tests.probe_app.shop_actions import log_in, order

__all__ = [
    "bulk_state",
    "cancel",
    "cancel_in_transaction",
    "die_while_publishing",
    "fail_eagerly_in_transaction",
    "log_in",
    "manage",
    "order",
    "publish_from_threads",
    "purge_and_measure",
    "read_for",
    "replay_all",
    "replay_at_once",
    "replay_dead_letter",
    "replay_in_transaction",
    "replay_the_rest",
    "stop_replaying",
]


class PlannedError(Exception):
    """Ends a transaction."""


def ready() -> bool:
    """Say that the process has started."""
    return True


def publish(task: str, *, args: list[Any], **options: Any) -> str:
    """Call a probe task, and return its id."""
    return str(getattr(tasks, task).apply_async(args, **options).id)


def publish_in_transaction(task: str, args: list[Any], *, commits: bool) -> dict[str, Any]:
    """Call a probe task inside a transaction, and say what was in the queue before its end."""
    found: dict[str, Any] = {}
    try:
        with transaction.atomic():
            with transaction.atomic():  # also a nested one must not release it
                found["task_id"] = getattr(tasks, task).delay(*args).id
            found["waiting_inside"] = waiting()
            if not commits:
                raise PlannedError
    except PlannedError:
        pass
    found["waiting_after"] = waiting()
    return found


def waiting() -> int:
    """Return the number of waiting messages on all queues."""
    from taskyard.brokers import broker_for
    from taskyard.conf import get_settings

    return sum(broker_for(get_settings()).waiting(get_settings(), timeout_seconds=5.0).values())


def get_page(path: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
    """Ask the site for a page, through all of its middleware."""
    response = Client().get(path, headers=headers or {})
    return {"status": response.status_code, "headers": dict(response.headers), **response.json()}


def replay_letter(task_id: str, **edits: Any) -> str:
    """Replay the newest dead letter of a task, and return the id of the new one."""
    from taskyard.deadletters.models import DeadLetter
    from taskyard.deadletters.replay import replay

    letter = DeadLetter.objects.filter(task_id=task_id).order_by("-pk")[0]
    return replay(letter.pk, actor="a test", **edits)


def admin_pages() -> dict[str, str]:
    """Return what the admin shows of every dead letter, with the pages of lists and faults."""
    from django.contrib.auth import get_user_model
    from django.urls import reverse

    from taskyard.deadletters.models import DeadLetter

    user, _ = get_user_model().objects.get_or_create(username="admin", is_staff=True, is_superuser=True)
    client = Client()
    client.force_login(user)
    of_letters = [
        reverse(f"admin:deadletters_deadletter_{page}", args=[letter.pk])
        for letter in DeadLetter.objects.all()
        for page in ("change", "history")
    ]
    paths = [reverse("admin:deadletters_deadletter_changelist"), *of_letters]
    return {path: client.get(path, follow=True).content.decode() for path in paths}


def publish_many(count: int, chunk_size: int) -> dict[str, Any]:
    """Make a bulk call, and return its account."""
    calls = ((f"bulk {number}",) for number in range(count))
    try:
        result = tasks.record.enqueue_many(calls, chunk_size=chunk_size)
    except BulkPublishError as error:
        return {"sent": error.sent, "unsent": error.unsent, "uncertain": error.uncertain}
    return {"sent": result.task_ids, "unsent": (), "uncertain": ()}
