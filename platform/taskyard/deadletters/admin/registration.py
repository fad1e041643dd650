"""The pages in the Django admin. No letter is added, changed or deleted by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.views.decorators.http import require_POST, require_safe

from taskyard.deadletters.admin import bulk_pages, one_letter
from taskyard.deadletters.admin.discard_page import discard_all, discard_letter
from taskyard.deadletters.admin.edit_page import edit_letter
from taskyard.deadletters.admin.faults_page import show_faults
from taskyard.deadletters.admin.index_page import announce_open_letters
from taskyard.deadletters.admin.letter_page import find_letter, show_letter
from taskyard.deadletters.admin.letters_page import show_letters
from taskyard.deadletters.admin.permissions import may_view
from taskyard.deadletters.admin.replay_all_page import replay_all
from taskyard.deadletters.admin.selected import act_on_selected
from taskyard.deadletters.models import BulkReplay, DeadLetter

View = Callable[..., HttpResponse]


class _Pages(admin.ModelAdmin):  # type: ignore[type-arg] # generic in the stubs only
    """Pages of our own at the addresses of the admin; each asks for the permission to see dead letters."""

    def has_add_permission(self, *_: Any, **__: Any) -> bool:
        return False

    def has_change_permission(self, *_: Any, **__: Any) -> bool:
        return False

    def has_delete_permission(self, *_: Any, **__: Any) -> bool:
        return False

    def has_view_permission(self, request: HttpRequest, *_: Any, **__: Any) -> bool:
        return may_view(request)

    def _path(self, route: str, view: View, name: str, *, method: View | None = None) -> URLPattern:
        # The admin site first: it asks strangers to log in, and checks the CSRF token.
        return path(
            route, self.admin_site.admin_view(self._checked(view, method)), name=f"deadletters_{name}"
        )

    def _checked(self, view: View, method: View | None = None) -> View:
        def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if not self.has_view_permission(request):
                raise PermissionDenied
            return view(self, request, *args, **kwargs)

        update_wrapper(checked, view)
        guarded: Any = checked if method is None else method(checked)
        return guarded


class DeadLetterAdmin(_Pages):
    """Dead letters: list, faults, one letter, and what can be done."""

    def __init__(self, model: type[DeadLetter], admin_site: admin.AdminSite) -> None:
        super().__init__(model, admin_site)
        announce_open_letters(admin_site)

    def get_urls(self) -> list[URLPattern]:
        own = self._path
        one = "<int:letter_id>"
        return [
            own("faults/", show_faults, "deadletter_faults", method=require_safe),
            own("replay-all/", replay_all, "deadletter_replay_all"),
            own("discard-all/", discard_all, "deadletter_discard_all"),
            own("selected/", act_on_selected, "deadletter_selected", method=require_POST),
            own(f"{one}/replay/", one_letter.replay_letter, "deadletter_replay", method=require_POST),
            own(f"{one}/reveal/", one_letter.reveal_letter, "deadletter_reveal", method=require_POST),
            own(f"{one}/reopen/", one_letter.reopen_letter, "deadletter_reopen", method=require_POST),
            own(f"{one}/edit/", edit_letter, "deadletter_edit"),
            own(f"{one}/discard/", discard_letter, "deadletter_discard"),
            *super().get_urls(),
        ]

    def changelist_view(self, request: HttpRequest, *_: Any, **__: Any) -> HttpResponse:
        return self._checked(show_letters, require_safe)(request)

    def change_view(self, request: HttpRequest, object_id: str, *_: Any, **__: Any) -> HttpResponse:
        return self._checked(_show_letter, require_safe)(request, _number(object_id))


class BulkReplayAdmin(_Pages):
    """Bulk replays: which there are, and how far they are."""

    def get_urls(self) -> list[URLPattern]:
        one = "<int:bulk_id>"
        return [
            self._path(f"{one}/go-on/", bulk_pages.go_on, "bulkreplay_go_on", method=require_POST),
            self._path(f"{one}/stop/", bulk_pages.stop, "bulkreplay_stop", method=require_POST),
            self._path(
                f"{one}/progress/", bulk_pages.show_progress, "bulkreplay_progress", method=require_safe
            ),
            *super().get_urls(),
        ]

    def changelist_view(self, request: HttpRequest, *_: Any, **__: Any) -> HttpResponse:
        return self._checked(bulk_pages.show_bulk_replays, require_safe)(request)

    def change_view(self, request: HttpRequest, object_id: str, *_: Any, **__: Any) -> HttpResponse:
        return self._checked(bulk_pages.show_bulk_replay, require_safe)(request, _number(object_id))


def _show_letter(model_admin: _Pages, request: HttpRequest, letter_id: int) -> HttpResponse:
    return show_letter(model_admin, request, find_letter(letter_id))


def _number(object_id: str) -> int:
    if not (object_id.isascii() and object_id.isdigit() and len(object_id) < 19):
        raise Http404(f"{object_id!r} is no number of a row.")
    return int(object_id)


# Django imports the template tags of every app, and they import this package: also where there is no admin.
if apps.is_installed("django.contrib.admin"):
    admin.site.register(DeadLetter, DeadLetterAdmin)
    admin.site.register(BulkReplay, BulkReplayAdmin)
