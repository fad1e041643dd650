"""Replay everything that a filter finds: how many they are, the size of the sample, the rate."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse

from taskyard.clock import SYSTEM_CLOCK
from taskyard.deadletters.admin.filter_form import FilterForm, how_many_open, query_of
from taskyard.deadletters.admin.pages import actor, address, redirect, render
from taskyard.deadletters.admin.permissions import require
from taskyard.deadletters.bulk import ACTIVE, MAX_RATE, start_bulk_replay
from taskyard.deadletters.filters import DeadLetterFilter
from taskyard.deadletters.groups import count_letters
from taskyard.deadletters.models import BulkReplay, DeadLetter
from taskyard.errors import DeadLetterError

_UNFINISHED = (*ACTIVE, BulkReplay.State.WAITING)


class BulkReplayForm(forms.Form):
    """How careful to be."""

    sample = forms.IntegerField(
        min_value=0,
        max_value=1000,
        initial=5,
        label="How many first",
        help_text="So many are replayed first, the oldest ones. 0 replays all at once.",
    )
    rate_per_second = forms.FloatField(
        min_value=0.01,
        max_value=MAX_RATE,
        initial=10,
        label="Letters a second",
        help_text="At most so many: what the tasks call may just have recovered.",
    )


def replay_all(model_admin: admin.ModelAdmin[Any], request: HttpRequest) -> HttpResponse:
    """Ask how, then begin and show the progress."""
    require(request, "replay")
    chosen = FilterForm(request.GET, now=SYSTEM_CLOCK.now()).chosen()
    if chosen is None or chosen.status != DeadLetter.Status.OPEN:
        messages.error(request, "Only open letters are replayed; the filter asks for something else.")
        return redirect(model_admin, "deadletter_changelist")
    form = BulkReplayForm(request.POST if request.method == "POST" else None)
    running = _unfinished(chosen)
    refused = ""
    if request.method == "POST" and form.is_valid():
        if running is not None:
            # the same form, sent twice
            messages.warning(request, "This bulk replay has begun already.")
            return redirect(model_admin, "bulkreplay_change", running.pk)
        try:
            bulk = start_bulk_replay(chosen, actor=actor(request), **form.cleaned_data)
            return redirect(model_admin, "bulkreplay_change", bulk.pk)
        except DeadLetterError as error:
            refused = str(error)
    return _ask(model_admin, request, chosen, form=form, running=running, refused=refused)


def _ask(
    model_admin: admin.ModelAdmin[Any],
    request: HttpRequest,
    chosen: DeadLetterFilter,
    *,
    form: BulkReplayForm,
    running: BulkReplay | None,
    refused: str,
) -> HttpResponse:
    count = count_letters(chosen)
    return render(
        model_admin,
        request,
        "replay_all.html",
        title="Replay everything that the filter finds",
        what=how_many_open(count, chosen),
        form=form,
        refused=refused,
        running_url=address(model_admin, "bulkreplay_change", running.pk) if running else "",
        back_url=f"{address(model_admin, 'deadletter_changelist')}?{query_of(chosen)}",
    )


def _unfinished(chosen: DeadLetterFilter) -> BulkReplay | None:
    return BulkReplay.objects.filter(state__in=_UNFINISHED, filters=chosen.as_dict()).first()
