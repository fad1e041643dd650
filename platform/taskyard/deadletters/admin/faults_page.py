"""The faults: an incident is one line, not ten thousand."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse

from taskyard.clock import SYSTEM_CLOCK
from taskyard.deadletters.admin.filter_form import FilterForm, describe, query_of
from taskyard.deadletters.admin.listing import SEARCH_IS_CUT, search_floor
from taskyard.deadletters.admin.pages import address, render
from taskyard.deadletters.admin.task_names import task_names
from taskyard.deadletters.filters import DeadLetterFilter
from taskyard.deadletters.groups import FaultGroup, groups
from taskyard.deadletters.models import DeadLetter

SHOWN = 100


def show_faults(model_admin: admin.ModelAdmin[Any], request: HttpRequest) -> HttpResponse:
    """Show the faults of the letters that the filter leaves, the most frequent first."""
    form = FilterForm(request.GET, now=SYSTEM_CLOCK.now())
    chosen = form.chosen()
    found, note = ([], "") if chosen is None else _find(chosen)
    list_url = address(model_admin, "deadletter_changelist")
    return render(
        model_admin,
        request,
        "faults.html",
        title="Faults",
        form=form,
        task_names=task_names(),
        faults=[] if chosen is None else [_row(group, chosen, list_url) for group in found[:SHOWN]],
        how_many="The filter is wrong" if chosen is None else _how_many(len(found)),
        described="" if chosen is None else describe(chosen),
        searched_note=note,
        can_act=chosen is not None and chosen.status == DeadLetter.Status.OPEN,
        nothing_found="Correct what is marked above." if chosen is None else "No fault matches the filter.",
    )


def _find(chosen: DeadLetterFilter) -> tuple[list[FaultGroup], str]:
    """Return the faults, and what has to be said about the search."""
    floor = None if chosen.search is None else search_floor(chosen)
    if floor is None:
        return groups(chosen, limit=SHOWN + 1), ""
    since = floor[1] if chosen.since is None else max(floor[1], chosen.since)
    return groups(replace(chosen, since=since), limit=SHOWN + 1), SEARCH_IS_CUT


def _row(group: FaultGroup, chosen: DeadLetterFilter, list_url: str) -> dict[str, Any]:
    query = query_of(replace(chosen, fingerprint=group.fingerprint))
    shown = {field.name: getattr(group, field.name) for field in fields(group)}
    reason = (
        DeadLetter.Reason(group.reason).label if group.reason in DeadLetter.Reason.values else group.reason
    )
    return {**shown, "reason": reason, "query": query, "letters_url": f"{list_url}?{query}"}


def _how_many(count: int) -> str:
    if count > SHOWN:
        return f"The {SHOWN} most frequent faults"
    return f"{count} fault{'' if count == 1 else 's'}"
