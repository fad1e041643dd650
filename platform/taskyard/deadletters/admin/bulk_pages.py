"""The bulk replays: the list of them, the progress of one, and its buttons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse

from taskyard.deadletters import bulk as service
from taskyard.deadletters.admin.filter_form import describe
from taskyard.deadletters.admin.pages import actor, redirect, render
from taskyard.deadletters.admin.permissions import require
from taskyard.deadletters.admin.progress import progress_of, sample_sentence
from taskyard.deadletters.bulk_outcome import came_back_count, came_back_text, level_of, sample_of
from taskyard.deadletters.filters import DeadLetterFilter
from taskyard.deadletters.models import BulkReplay
from taskyard.errors import TaskyardError
from taskyard.wording import number

_LISTED = 50


def show_bulk_replays(model_admin: admin.ModelAdmin[Any], request: HttpRequest) -> HttpResponse:
    """Show the newest bulk replays."""
    found = list(BulkReplay.objects.order_by("-pk")[: _LISTED + 1])
    return render(
        model_admin,
        request,
        "bulk_replays.html",
        title="Bulk replays",
        rows=[_row(bulk) for bulk in found[:_LISTED]],
        is_more=len(found) > _LISTED,
    )


def show_bulk_replay(model_admin: admin.ModelAdmin[Any], request: HttpRequest, bulk_id: int) -> HttpResponse:
    """Show how far it is, and what became of its sample."""
    bulk = _find(bulk_id)
    sample = sample_of(bulk)
    return render(
        model_admin,
        request,
        "bulk_replay.html",
        title=f"Bulk replay {bulk.pk}",
        bulk=bulk,
        described=_described(bulk),
        progress=progress_of(bulk),
        rate=number(bulk.rate_per_second),
        sample=sample,
        sample_sentence=sample_sentence(sample),
    )


def show_progress(_: admin.ModelAdmin[Any], __: HttpRequest, bulk_id: int) -> HttpResponse:
    """Answer the script of the progress page."""
    return JsonResponse(progress_of(_find(bulk_id)))


def go_on(model_admin: admin.ModelAdmin[Any], request: HttpRequest, bulk_id: int) -> HttpResponse:
    """Replay the rest."""
    return _change(model_admin, request, bulk_id, service.go_on)


def stop(model_admin: admin.ModelAdmin[Any], request: HttpRequest, bulk_id: int) -> HttpResponse:
    """Leave the rest alone."""
    return _change(model_admin, request, bulk_id, service.stop)


def _change(
    model_admin: admin.ModelAdmin[Any],
    request: HttpRequest,
    bulk_id: int,
    change: Callable[[int, str], BulkReplay],
) -> HttpResponse:
    require(request, "replay")
    _find(bulk_id)
    try:
        change(bulk_id, actor(request))
    except TaskyardError as error:
        messages.error(request, str(error))
    return redirect(model_admin, "bulkreplay_change", bulk_id)


def _find(bulk_id: int) -> BulkReplay:
    bulk = BulkReplay.objects.filter(pk=bulk_id).first()
    if bulk is None:
        raise Http404(f"Bulk replay {bulk_id} does not exist. It may have been deleted by the retention.")
    return bulk


def _row(bulk: BulkReplay) -> dict[str, Any]:
    came_back = came_back_count(bulk)
    return {
        "bulk": bulk,
        "described": _described(bulk),
        "came_back": came_back_text(came_back),
        "level": level_of(bulk, came_back) if came_back else "",
    }


def _described(bulk: BulkReplay) -> str:
    words = describe(DeadLetterFilter.from_dict(bulk.filters))
    return words or "all open letters"
