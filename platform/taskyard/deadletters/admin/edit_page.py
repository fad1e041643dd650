"""Edit the arguments and replay: an editor, a preview of what changes, then the replay."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse

from taskyard.deadletters.admin.edit_form import EditForm
from taskyard.deadletters.admin.letter_page import find_letter
from taskyard.deadletters.admin.pages import actor, redirect, render
from taskyard.deadletters.admin.permissions import require
from taskyard.deadletters.changes import Change, changes_between
from taskyard.deadletters.contents import Content, shown_content
from taskyard.deadletters.models import DeadLetter
from taskyard.deadletters.registry import require_task
from taskyard.deadletters.replay import replay
from taskyard.deadletters.replay_message import call_of
from taskyard.errors import DeadLetterError, DeadLetterNotOpenError, TaskyardError
from taskyard.masking import MASK
from taskyard.tasks.signature_fit import signature_text
from taskyard.wording import as_json

_CHANGED_SINCE = "The arguments are not those of the preview any more. Look at what changes, then replay."


def edit_letter(model_admin: admin.ModelAdmin[Any], request: HttpRequest, letter_id: int) -> HttpResponse:
    """Show the editor; with a POST, preview the edit or replay it."""
    require(request, "replay")
    letter = find_letter(letter_id)
    try:
        task = require_task(letter.task_name, where=f"Dead letter {letter.pk}")
    except DeadLetterError as error:
        messages.error(request, str(error))
        return redirect(model_admin, "deadletter_change", letter_id)
    shown = shown_content(letter)
    if request.method != "POST":
        return _page(model_admin, request, letter, shown, task=task, form=_first_form(task, shown))
    form = EditForm(request.POST, task=task)
    if not form.is_valid():
        return _page(model_admin, request, letter, shown, task=task, form=form)
    wants_replay = request.POST.get("action") == "replay"
    try:
        if wants_replay and form.is_previewed:
            return _replay(model_admin, request, letter, form)
        # what else could be wrong: hidden values that cannot be had, a mask where there was no value
        call_of(letter, args=form.cleaned_data["args"], kwargs=form.cleaned_data["kwargs"])
    except DeadLetterNotOpenError as error:
        messages.error(request, str(error))
        return redirect(model_admin, "deadletter_change", letter_id)
    except TaskyardError as error:
        return _page(model_admin, request, letter, shown, task=task, form=form, refused=str(error))
    changes = changes_between(letter.task_name, shown, form.cleaned_data["args"], form.cleaned_data["kwargs"])
    note = _CHANGED_SINCE if wants_replay else ""
    return _page(model_admin, request, letter, shown, task=task, form=form, changes=changes, refused=note)


def _replay(
    model_admin: admin.ModelAdmin[Any], request: HttpRequest, letter: DeadLetter, form: EditForm
) -> HttpResponse:
    task_id = replay(
        letter.pk, actor=actor(request), args=form.cleaned_data["args"], kwargs=form.cleaned_data["kwargs"]
    )
    messages.success(request, f"Replayed with these arguments as task {task_id}.")
    return redirect(model_admin, "deadletter_change", letter.pk)


def _page(
    model_admin: admin.ModelAdmin[Any],
    request: HttpRequest,
    letter: DeadLetter,
    shown: Content,
    *,
    task: Any,
    form: EditForm,
    changes: list[Change] | None = None,
    refused: str = "",
) -> HttpResponse:
    if changes is not None:
        # the bound form would send the mark of the last preview again
        form.data = dict(form.data.items()) | {"previewed": form.seen}
    return render(
        model_admin,
        request,
        "edit.html",
        title=f"Edit the arguments of {letter.task_name} and replay",
        letter=letter,
        signature=signature_text(task),
        form=form,
        has_masked=_has_masked(shown),
        mask=MASK,
        changes=changes,
        is_unchanged=changes is not None and not any(change.is_changed for change in changes),
        refused=refused,
    )


def _first_form(task: Any, shown: Content) -> EditForm:
    return EditForm(task=task, initial={"args": as_json(shown.args), "kwargs": as_json(shown.kwargs)})


def _has_masked(shown: Content) -> bool:
    return MASK in shown.args or MASK in shown.kwargs.values()
