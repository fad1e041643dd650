"""Discard with a reason: one letter, some that were picked, or all that a filter finds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse

from taskyard.clock import SYSTEM_CLOCK
from taskyard.deadletters.admin.filter_form import FilterForm, how_many_open, query_of
from taskyard.deadletters.admin.letter_page import find_letter
from taskyard.deadletters.admin.pages import actor, address, redirect, render
from taskyard.deadletters.admin.permissions import require
from taskyard.deadletters.admin.sentences import what_happened
from taskyard.deadletters.discard import REASON_LENGTH, discard
from taskyard.deadletters.filters import DeadLetterFilter
from taskyard.deadletters.groups import count_letters
from taskyard.deadletters.models import DeadLetter
from taskyard.errors import DeadLetterError
from taskyard.wording import counted


class DiscardForm(forms.Form):
    """Why it need not run."""

    reason = forms.CharField(
        max_length=REASON_LENGTH,
        label="Reason",
        help_text="For those who wonder later. Discarded letters can be opened again until they are deleted.",
        widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "off"}),
        error_messages={"required": "Say why."},
    )


def discard_letter(model_admin: admin.ModelAdmin[Any], request: HttpRequest, letter_id: int) -> HttpResponse:
    """Discard one letter."""
    require(request, "discard")
    letter = find_letter(letter_id)
    back_url = address(model_admin, "deadletter_change", letter_id)
    return _discard(
        model_admin, request, [letter_id], what=what_happened(letter), button="Discard", back_url=back_url
    )


def discard_selected(
    model_admin: admin.ModelAdmin[Any], request: HttpRequest, letter_ids: list[int]
) -> HttpResponse:
    """Discard those that were picked on the list."""
    require(request, "discard")
    what = f"{counted(len(letter_ids), 'letter', 'letters')} picked on the list."
    return _discard(
        model_admin,
        request,
        letter_ids,
        what=what,
        button=f"Discard {counted(len(letter_ids), 'letter', 'letters')}",
        back_url=address(model_admin, "deadletter_changelist"),
        letter_ids=letter_ids,
    )


def discard_all(model_admin: admin.ModelAdmin[Any], request: HttpRequest) -> HttpResponse:
    """Discard all open letters that the filter in the query string leaves."""
    require(request, "discard")
    now = SYSTEM_CLOCK.now()
    chosen = FilterForm(request.GET, now=now).chosen()
    if chosen is None or chosen.status != DeadLetter.Status.OPEN:
        messages.error(request, "Only open letters are discarded; the filter asks for something else.")
        return redirect(model_admin, "deadletter_changelist")
    if chosen.until is None:
        # What comes in while the reason is written was not looked at by anybody.
        chosen = replace(chosen, until=now)
    count = count_letters(chosen)
    return _discard(
        model_admin,
        request,
        chosen,
        what=how_many_open(count, chosen),
        button=f"Discard {counted(count, 'letter', 'letters')}",
        back_url=f"{address(model_admin, 'deadletter_changelist')}?{query_of(chosen)}",
        action_query=query_of(chosen),
    )


def _discard(
    model_admin: admin.ModelAdmin[Any],
    request: HttpRequest,
    chosen: DeadLetterFilter | Iterable[int],
    *,
    what: str,
    button: str,
    back_url: str,
    letter_ids: Iterable[int] = (),
    action_query: str = "",
) -> HttpResponse:
    is_sent = request.method == "POST" and "confirmed" in request.POST
    form = DiscardForm(request.POST if is_sent else None)
    refused = ""
    if is_sent and form.is_valid():
        try:
            count = discard(chosen, actor=actor(request), reason=form.cleaned_data["reason"])
        except DeadLetterError as error:
            refused = str(error)
        else:
            _report(request, count)
            return redirect(model_admin, "deadletter_changelist")
    return render(
        model_admin,
        request,
        "discard.html",
        title="Discard",
        form=form,
        what=what,
        button=button,
        back_url=back_url,
        letter_ids=letter_ids,
        action_query=action_query,
        refused=refused,
    )


def _report(request: HttpRequest, count: int) -> None:
    if count:
        messages.success(request, f"Discarded {counted(count, 'letter', 'letters')}.")
    else:
        messages.error(request, "Nothing was discarded: no letter of these is open any more.")
