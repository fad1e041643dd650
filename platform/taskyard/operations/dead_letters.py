"""The dead letters of tasks, where the project keeps them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.apps import apps
from django.http import HttpRequest

_APP = "taskyard.deadletters"


def letters_of(task_ids: Collection[str]) -> dict[str, Any]:
    """Return the newest dead letter of each of the tasks that has one, by the task's id."""
    # by Django's registry: a project may have this app without the other
    if not task_ids or not apps.is_installed(_APP):
        return {}
    rows = apps.get_model("deadletters", "DeadLetter")._default_manager.filter(task_id__in=task_ids)
    found = rows.order_by("pk").only("pk", "status", "task_id", "task_name", "queue", "reason")
    return {letter.task_id: letter for letter in found}


def may_view_letters(request: HttpRequest) -> bool:
    """Return whether this user may open the page of a dead letter."""
    return any(request.user.has_perm(f"deadletters.{action}_deadletter") for action in ("view", "change"))
