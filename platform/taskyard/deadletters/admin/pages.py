"""What all pages share: the frame of the Django admin, the permissions, the addresses."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from taskyard.clock import SYSTEM_CLOCK
from taskyard.deadletters.admin.permissions import allowed


def render(
    model_admin: admin.ModelAdmin[Any], request: HttpRequest, template: str, *, title: str, **context: Any
) -> TemplateResponse:
    """Return a page inside the frame of the admin site."""
    site = model_admin.admin_site
    request.current_app = site.name  # what `url` in templates looks at
    return TemplateResponse(
        request,
        f"deadletters/{template}",
        {
            **site.each_context(request),
            "opts": model_admin.opts,
            "title": title,
            "allowed": allowed(request),
            "now": SYSTEM_CLOCK.now(),
            # The tables need the width.
            "is_nav_sidebar_enabled": False,
            **context,
        },
    )


def address(model_admin: admin.ModelAdmin[Any], name: str, *args: Any) -> str:
    """Return the address of a page by the end of its name: `deadletter_faults`."""
    return reverse(f"admin:deadletters_{name}", args=args, current_app=model_admin.admin_site.name)


def redirect(model_admin: admin.ModelAdmin[Any], name: str, *args: Any) -> HttpResponseRedirect:
    """Return a redirect to a page by the end of its name."""
    return HttpResponseRedirect(address(model_admin, name, *args))


def actor(request: HttpRequest) -> str:
    """Return the name under which an action is audited."""
    return request.user.get_username()
