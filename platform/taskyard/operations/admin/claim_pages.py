"""The list of claims, and the page that asks before one is released."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from taskyard.errors import StateUnavailableError
from taskyard.operations.claims import (
    KINDS,
    LIMIT,
    STATES,
    ShownClaim,
    find_claims,
    project_store,
    release_claim,
    shown,
)

GONE = "This claim has ended, or has another holder by now. Nothing was released."


def show_claims(model_admin: Any, request: HttpRequest) -> HttpResponse:
    """Show who holds what, oldest first; without a filter, what is held now."""
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    kind = _one_of(request.GET.get("kind", ""), KINDS)
    task = request.GET.get("task", "").strip()
    state = _one_of(request.GET.get("state", STATES[0]), STATES)
    claims: list[ShownClaim] = []
    problem = ""
    try:
        claims = find_claims(project_store(), kind=kind, task=task, state=state or None)
    except StateUnavailableError as error:
        problem = str(error)
    context = {
        "title": "Claims",
        "claims": claims,
        "chosen": {"kind": kind, "task": task, "state": state},
        "kinds": KINDS,
        "states": STATES,
        "problem": problem,
        "is_cut": len(claims) == LIMIT,
        "may_release": model_admin.has_release_permission(request),
    }
    return _page(model_admin, request, "claims.html", context, status=503 if problem else 200)


def release(model_admin: Any, request: HttpRequest) -> HttpResponse:
    """Ask whether to release a claim (GET), and release it (POST)."""
    if not (model_admin.has_view_permission(request) and model_admin.has_release_permission(request)):
        raise PermissionDenied
    given = request.POST if request.method == "POST" else request.GET
    key, fence = given.get("key", ""), given.get("fence", "")
    try:
        if request.method == "POST":
            return _release(request, key, fence)
        claim = project_store().read(key) if key else None
    except StateUnavailableError as error:
        messages.error(request, str(error))
        return _back()
    if claim is None or str(claim.fence) != fence:
        messages.warning(request, GONE)
        return _back()
    return _page(
        model_admin, request, "release_claim.html", {"title": "Release a claim", "shown": shown(claim)}
    )


def release_url(claim: ShownClaim) -> str:
    """Return the address of the page that asks."""
    query = urlencode({"key": claim.claim.key, "fence": claim.claim.fence})
    return f"{reverse('admin:operations_heldclaim_release')}?{query}"


def _release(request: HttpRequest, key: str, fence: str) -> HttpResponse:
    released = None
    if key and fence.isdecimal():
        who = request.user.get_username()
        released = release_claim(project_store(), key, who=who, fence=int(fence))
    if released is None:
        messages.warning(request, GONE)
    else:
        messages.success(request, f"Released: {key}, which was {released.held_by}.")
    return _back()


def _back() -> HttpResponse:
    return HttpResponseRedirect(reverse("admin:operations_heldclaim_changelist"))


def _one_of(value: str, known: tuple[str, ...]) -> str:
    return value if value in known else ""


def _page(
    model_admin: Any, request: HttpRequest, template: str, context: dict[str, Any], *, status: int = 200
) -> HttpResponse:
    shared = {**model_admin.admin_site.each_context(request), "opts": model_admin.model._meta}
    return TemplateResponse(request, f"operations/{template}", {**shared, **context}, status=status)
