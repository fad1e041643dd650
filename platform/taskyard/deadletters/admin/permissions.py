"""Who may do what: each action has a permission of its own, beside the one to see dead letters."""

from __future__ import annotations

from dataclasses import dataclass

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the user of a request may do with dead letters; templates show no other button."""

    replay: bool
    discard: bool
    reveal: bool


def allowed(request: HttpRequest) -> Allowed:
    """Return what this user may do."""
    return Allowed(**{action: _may(request, action) for action in ("replay", "discard", "reveal")})


def require(request: HttpRequest, action: str) -> None:
    """Refuse the request of a user who must not do this; that they may look is asked for every page.

    Raises:
        PermissionDenied: becomes a page with the status 403.
    """
    if not _may(request, action):
        raise PermissionDenied


def may_view(request: HttpRequest) -> bool:
    """Return whether this user may see dead letters at all."""
    return _may(request, "view") or _may(request, "change")


def _may(request: HttpRequest, action: str) -> bool:
    # request.user may be a user without the staff flag: the admin site has refused it before
    return bool(request.user.has_perm(f"deadletters.{action}_deadletter"))
