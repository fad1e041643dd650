"""Removing expired sessions without one long transaction."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.backends.db import SessionStore as DatabaseSessionStore

from taskyard.clock import SYSTEM_CLOCK, Clock

CHUNK_SIZE = 1000


def clear_expired(
    store: type[SessionBase] | None = None, *, chunk_size: int = CHUNK_SIZE, clock: Clock = SYSTEM_CLOCK
) -> int | None:
    """Remove the sessions that have expired.

    Sessions in the database go in chunks, each in a short transaction: one `DELETE` of a month's sessions
    blocks logins. Other stores are asked to do it themselves.

    Args:
        store: the class of the session store; that of the Django settings when None.
        chunk_size: sessions a transaction.
        clock: says which ones have expired.

    Returns:
        how many were removed; None where the store does not count.
    """
    chosen: Any = import_module(settings.SESSION_ENGINE).SessionStore if store is None else store
    if not issubclass(chosen, DatabaseSessionStore):
        chosen.clear_expired()
        return None
    expired = chosen.get_model_class().objects.filter(expire_date__lt=clock.now())
    removed = 0
    while keys := list(expired.values_list("pk", flat=True)[:chunk_size]):
        # The condition again: a session may have been renewed since its key was read.
        removed += expired.filter(pk__in=keys).delete()[0]
    return removed
