"""TY019: a task with a circuit breaker needs its state on Redis or Valkey."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Warning, register

from taskyard.conf import DATABASE_STATE, get_settings


@register()
def check_breakers_have_a_store(**_: Any) -> list[CheckMessage]:
    """Warn of breakers that never open: the same tasks may run on a site without Redis, unprotected."""
    if get_settings().state_url != DATABASE_STATE:
        return []
    from celery import current_app

    # as in `check_explicit_names`
    current_app.autodiscover_tasks(force=True)
    guarded = [name for name, task in current_app.tasks.items() if getattr(task, "breaker", None) is not None]
    return [
        Warning(
            f"Task {name!r} has a circuit breaker, which never opens: STATE_URL is 'django-db'.",
            hint="Give STATE_URL a redis:// address: breakers need Redis or Valkey.",
            id="taskyard.TY019",
        )
        for name in sorted(guarded)
    ]
