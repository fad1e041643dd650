"""The list: open letters first."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse

from taskyard.clock import SYSTEM_CLOCK
from taskyard.deadletters.admin.filter_form import FilterForm, describe, query_of
from taskyard.deadletters.admin.listing import SEARCH_IS_CUT, Listing, list_letters, written_count
from taskyard.deadletters.admin.pages import render
from taskyard.deadletters.admin.task_names import task_names
from taskyard.deadletters.filters import DeadLetterFilter
from taskyard.deadletters.models import DeadLetter

_STATUS_WORDS = {DeadLetter.Status.REPLAYING: "being replayed", None: ""}


def show_letters(model_admin: admin.ModelAdmin[Any], request: HttpRequest) -> HttpResponse:
    """Show a page of what the filter in the query string leaves."""
    form = FilterForm(request.GET, now=SYSTEM_CLOCK.now())
    chosen = form.chosen()
    before = _number(request.GET.get("before", ""))
    context = _nothing() if chosen is None else _found(chosen, list_letters(chosen, before=before), before)
    return render(
        model_admin,
        request,
        "letters.html",
        title="Dead letters",
        form=form,
        task_names=task_names(),
        **context,
    )


def _found(chosen: DeadLetterFilter, listing: Listing, before: int | None) -> dict[str, Any]:
    query = query_of(chosen)
    return {
        "letters": listing.letters,
        "how_many": counted_letters(listing.count, None if listing.found_by_id else chosen.status),
        "described": "" if listing.found_by_id else describe(chosen),
        "query": query,
        "can_act_on_all": chosen.status == DeadLetter.Status.OPEN and not listing.found_by_id,
        "searched_note": _searched_note(chosen, listing),
        "newest_url": f"?{query}" if before is not None else "",
        "older_url": f"?{query_of(chosen, before=listing.letters[-1].pk)}" if listing.is_more else "",
        "nothing_found": _nothing_found(chosen),
    }


def _nothing() -> dict[str, Any]:
    return {
        "letters": [],
        "how_many": "The filter is wrong",
        "nothing_found": "Correct what is marked above.",
    }


def counted_letters(count: int, status: str | None) -> str:
    """Return `12 open letters`."""
    word = "" if status is None else f"{DeadLetter.Status(status).label} "
    return written_count(count, f"{word}letter", f"{word}letters")


def _searched_note(chosen: DeadLetterFilter, listing: Listing) -> str:
    if listing.found_by_id:
        return f"Found by the id {chosen.search}, whatever else is in the filter."
    return SEARCH_IS_CUT if listing.is_cut else ""


def _nothing_found(chosen: DeadLetterFilter) -> str:
    if chosen == DeadLetterFilter():
        return "No open dead letters. Nothing to do."
    return "No letter matches the filter."


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
