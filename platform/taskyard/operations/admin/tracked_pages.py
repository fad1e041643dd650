"""The list of tracked tasks with their progress, and the page that asks before one is cancelled."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from taskyard.clock import SYSTEM_CLOCK
from taskyard.errors import TaskyardError
from taskyard.models import TrackedTask
from taskyard.operations.dead_letters import letters_of, may_view_letters
from taskyard.operations.tracked import LIMIT, find_tasks, shown_task, what_follows
from taskyard.tasks.cancellation import cancel


class CancelForm(forms.Form):
    """Which task, and why."""

    task_id = forms.CharField(max_length=255, label="Task id")
    reason = forms.CharField(
        max_length=255,
        label="Reason",
        help_text="For the log, and for those who wonder later.",
        error_messages={"required": "Say why."},
    )


def show_tasks(model_admin: Any, request: HttpRequest) -> HttpResponse:
    """Show the tasks that report progress or were cancelled, what has changed last on top."""
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    chosen = {name: request.GET.get(name, "").strip() for name in ("state", "task", "task_id")}
    if chosen["state"] not in TrackedTask.State.values:
        chosen["state"] = ""
    found = find_tasks(**chosen)
    now = SYSTEM_CLOCK.now()
    letters = letters_of([row.task_id for row in found[:LIMIT]])
    context = {
        "title": "Tracked tasks",
        "tasks": [shown_task(row, now, letters.get(row.task_id)) for row in found[:LIMIT]],
        "may_view_letters": may_view_letters(request),
        "is_cut": len(found) > LIMIT,
        "limit": LIMIT,
        "chosen": chosen,
        "states": TrackedTask.State.values,
        "may_cancel": model_admin.has_cancel_permission(request),
    }
    return _page(model_admin, request, "tracked_tasks.html", context)


def cancel_task(model_admin: Any, request: HttpRequest) -> HttpResponse:
    """Ask whether to cancel a task (GET), and cancel it (POST). It need not be on the list."""
    if not (model_admin.has_view_permission(request) and model_admin.has_cancel_permission(request)):
        raise PermissionDenied
    if request.method != "POST":
        form = CancelForm(initial={"task_id": request.GET.get("task_id", "")})
        return _page(model_admin, request, "cancel_task.html", {"title": "Cancel a task", "form": form})
    form = CancelForm(request.POST)
    problem = ""
    if form.is_valid():
        try:
            outcome = cancel(
                form.cleaned_data["task_id"],
                by=request.user.get_username(),
                reason=form.cleaned_data["reason"],
            )
        except TaskyardError as error:
            problem = str(error)
        else:
            level = messages.success if outcome.is_first and outcome.is_confirmed else messages.warning
            level(request, what_follows(outcome))
            return HttpResponseRedirect(reverse("admin:taskyard_trackedtask_changelist"))
    context = {"title": "Cancel a task", "form": form, "problem": problem}
    return _page(model_admin, request, "cancel_task.html", context)


def _page(model_admin: Any, request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
    shared = {
        **model_admin.admin_site.each_context(request),
        "opts": model_admin.model._meta,
        # the table needs the width
        "is_nav_sidebar_enabled": False,
    }
    return TemplateResponse(request, f"operations/{template}", {**shared, **context})
