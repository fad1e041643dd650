"""The buttons of one letter: replay, show what is hidden, open again. POST only."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse

from taskyard.deadletters.admin.letter_page import find_letter, show_letter
from taskyard.deadletters.admin.pages import actor, redirect
from taskyard.deadletters.admin.permissions import require
from taskyard.deadletters.discard import reopen
from taskyard.deadletters.replay import replay
from taskyard.deadletters.reveal import reveal
from taskyard.errors import DeadLetterError


def replay_letter(model_admin: admin.ModelAdmin[Any], request: HttpRequest, letter_id: int) -> HttpResponse:
    """Replay a letter as it is, and say as which task."""
    require(request, "replay")
    find_letter(letter_id)
    try:
        task_id = replay(letter_id, actor=actor(request))
    except DeadLetterError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"Replayed as task {task_id}.")
    return redirect(model_admin, "deadletter_change", letter_id)


def reveal_letter(model_admin: admin.ModelAdmin[Any], request: HttpRequest, letter_id: int) -> HttpResponse:
    """Show the letter once with what is encrypted in it. Its address alone shows nothing: it is a POST."""
    require(request, "reveal")
    letter = find_letter(letter_id)
    try:
        revealed = reveal(letter_id, actor=actor(request))
    except DeadLetterError as error:
        messages.error(request, str(error))
        return redirect(model_admin, "deadletter_change", letter_id)
    return show_letter(model_admin, request, letter, revealed)


def reopen_letter(model_admin: admin.ModelAdmin[Any], request: HttpRequest, letter_id: int) -> HttpResponse:
    """Open a discarded letter again."""
    require(request, "discard")
    find_letter(letter_id)
    if reopen([letter_id], actor=actor(request)):
        messages.success(request, "Opened again.")
    else:
        messages.error(request, "It is not discarded any more.")
    return redirect(model_admin, "deadletter_change", letter_id)
