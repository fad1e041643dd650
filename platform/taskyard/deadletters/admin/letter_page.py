"""The page of one letter: what happened, with which arguments, how often, and what people did about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import NoReverseMatch, reverse

from taskyard.deadletters.admin.attempts import attempts_of
from taskyard.deadletters.admin.canvas import describe_canvas
from taskyard.deadletters.admin.filter_form import query_of
from taskyard.deadletters.admin.history import history_of
from taskyard.deadletters.admin.origin import origin_of
from taskyard.deadletters.admin.pages import address, render
from taskyard.deadletters.admin.permissions import allowed
from taskyard.deadletters.admin.sentences import what_happened
from taskyard.deadletters.contents import Content, shown_content
from taskyard.deadletters.filters import DeadLetterFilter
from taskyard.deadletters.header_texts import header_texts
from taskyard.deadletters.models import DeadLetter
from taskyard.deadletters.named_arguments import arguments_of
from taskyard.deadletters.reveal import Revealed
from taskyard.masking import MASK
from taskyard.models import TrackedTask

_COME_BACK_SHOWN = 5


def find_letter(letter_id: int) -> DeadLetter:
    """Return the letter, or answer with 404."""
    letter = DeadLetter.objects.filter(pk=letter_id).first()
    if letter is None:
        raise Http404(f"Dead letter {letter_id} does not exist. It may have been deleted by the retention.")
    return letter


def show_letter(
    model_admin: admin.ModelAdmin[Any],
    request: HttpRequest,
    letter: DeadLetter,
    revealed: Revealed | None = None,
) -> HttpResponse:
    """Show the letter; with what is encrypted in it where it was just revealed."""
    content = _content(letter, revealed)
    list_url = address(model_admin, "deadletter_changelist")
    return render(
        model_admin,
        request,
        "letter.html",
        title=f"{letter.task_name or 'Dead letter'} {letter.pk}",
        letter=letter,
        sentence=what_happened(letter),
        arguments=arguments_of(letter.task_name, content.args, content.kwargs),
        canvas=describe_canvas(content.canvas),
        mask=MASK,
        raw=revealed.message if revealed else "",
        attempts=attempts_of(letter),
        origin=origin_of(letter, list_url=list_url, task_url=_task_url(model_admin, request, letter)),
        headers=header_texts(letter.headers),
        history=history_of(letter),
        came_back=list(letter.replays.order_by("pk")[:_COME_BACK_SHOWN]),
        same_fault_url=f"{list_url}?{_same_fault(letter)}" if letter.fingerprint else "",
        revealed=revealed is not None,
        **_possible(request, letter, is_revealed=revealed is not None),
    )


def _content(letter: DeadLetter, revealed: Revealed | None) -> Content:
    if revealed is not None and revealed.content is not None:
        return revealed.content
    return shown_content(letter)


def _task_url(model_admin: admin.ModelAdmin[Any], request: HttpRequest, letter: DeadLetter) -> str:
    """Return where the progress of the task is shown; "" where there is none, or not for this user."""
    if not letter.task_id or not request.user.has_perm("taskyard.view_trackedtask"):
        return ""
    if not TrackedTask.objects.filter(pk=letter.task_id).exists():
        return ""
    try:
        page = reverse("admin:taskyard_trackedtask_changelist", current_app=model_admin.admin_site.name)
    except NoReverseMatch:  # a project without taskyard.operations
        return ""
    return f"{page}?{urlencode({'task_id': letter.task_id})}"


def _same_fault(letter: DeadLetter) -> str:
    return query_of(DeadLetterFilter(fingerprint=letter.fingerprint))


def _possible(request: HttpRequest, letter: DeadLetter, *, is_revealed: bool) -> Mapping[str, bool]:
    is_sealed = bool(letter.sealed or letter.sealed_raw)
    return {
        "is_open": letter.status in (DeadLetter.Status.OPEN, DeadLetter.Status.REPLAYING),
        "is_sealed": is_sealed,
        "can_edit": bool(letter.task_name) and letter.status == DeadLetter.Status.OPEN,
        "can_reveal": is_sealed and not is_revealed and allowed(request).reveal,
    }
