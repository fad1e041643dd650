"""What is done with the letters that were picked on the list."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse

from taskyard.deadletters.admin.discard_page import discard_selected
from taskyard.deadletters.admin.listing import PER_PAGE
from taskyard.deadletters.admin.pages import actor, redirect
from taskyard.deadletters.admin.permissions import require
from taskyard.deadletters.replay import replay
from taskyard.errors import DeadLetterNotPublishedError, TaskyardError
from taskyard.wording import counted

_SHOWN_ERRORS = 5


def act_on_selected(model_admin: admin.ModelAdmin[Any], request: HttpRequest) -> HttpResponse:
    """Replay or discard the picked letters, as the button says."""
    ids = [int(text) for text in request.POST.getlist("letter") if text.isascii() and text.isdigit()]
    if not ids:
        messages.error(request, "No letter is selected. Tick the boxes on the left first.")
        return redirect(model_admin, "deadletter_changelist")
    if request.POST.get("action") == "discard":
        return discard_selected(model_admin, request, ids)
    require(request, "replay")
    _replay(request, ids[:PER_PAGE])
    return redirect(model_admin, "deadletter_changelist")


def _replay(request: HttpRequest, ids: list[int]) -> None:
    replayed, errors = 0, []
    for letter_id in sorted(ids):
        try:
            replay(letter_id, actor=actor(request))
            replayed += 1
        except DeadLetterNotPublishedError as error:
            # The next one would wait for the same broker, each for the whole budget of a publish.
            errors.append(f"{error} The others were left alone.")
            break
        except TaskyardError as error:
            errors.append(str(error))
    if replayed:
        messages.success(request, f"Replayed {counted(replayed, 'letter', 'letters')}.")
    for text in errors[:_SHOWN_ERRORS]:
        messages.error(request, text)
    if len(errors) > _SHOWN_ERRORS:
        messages.error(request, f"{len(errors) - _SHOWN_ERRORS} more could not be replayed.")
