"""A task has the limits of its queue, unless it states its own."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from taskyard.tasks.base import Task
from taskyard.worker.request import Request

QUEUES = {"critical": {"soft_time_limit_seconds": 25, "time_limit_seconds": 30}}


@pytest.fixture
def app(make_app: Callable[..., Any]) -> Any:
    return make_app(QUEUES=QUEUES)


def _do_nothing() -> None:
    return


def limits_of(declared: Any, *, queue: str = "critical") -> list[float | None]:
    """Return [hard, soft] as the worker would apply them to a message from this queue."""
    # as the worker finds it, not the decorator's proxy
    task = declared.app.tasks[declared.name]
    headers = {"id": "1", "task": task.name, "lang": "py", "args": [], "kwargs": {}}
    message = SimpleNamespace(
        headers=headers,
        body=([], {}, {}),
        content_type="application/json",
        content_encoding="utf-8",
        properties={},
        delivery_info={"routing_key": queue},
    )
    request = Request(
        message, app=task.app, task=task, hostname="test", headers=headers, decoded=True, connection_errors=()
    )
    return list(request.time_limits or ())


def test_a_task_without_limits_has_those_of_its_queue(app: Any) -> None:
    task = app.task(_do_nothing, name="limits.plain", queue="critical")

    assert limits_of(task) == [30, 25]


def test_a_task_may_state_only_its_hard_limit(app: Any) -> None:
    task = app.task(_do_nothing, name="limits.hard", queue="critical", time_limit=10)

    assert limits_of(task) == [10, 9]


def test_a_task_with_both_limits_keeps_them(app: Any) -> None:
    task = app.task(_do_nothing, name="limits.both", queue="critical", soft_time_limit=3, time_limit=5)

    assert limits_of(task) == [5, 3]


def test_the_limits_of_a_base_class_count(app: Any) -> None:
    class Slow(Task):
        abstract = True
        soft_time_limit = 100
        time_limit = 120

    task = app.task(_do_nothing, name="limits.inherited", queue="critical", base=Slow)

    assert limits_of(task) == [120, 100]
