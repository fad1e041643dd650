"""TY017: what is encrypted has a key of its own; runs with `manage.py check --deploy`."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Tags, Warning, register

from taskyard.conf import get_settings

NAMES_SHOWN = 5


@register(Tags.security, deploy=True)
def check_encryption_keys(**_: Any) -> list[CheckMessage]:
    """Warn where dead letters keep marked arguments under a key that is made for something else."""
    if get_settings().encryption_keys:
        return []
    from celery import current_app

    # the tasks of every app, also of those that nothing has imported yet
    current_app.autodiscover_tasks(force=True)
    names = sorted(name for name, task in current_app.tasks.items() if getattr(task, "redact", None))
    if not names:
        return []
    shown = ", ".join(names[:NAMES_SHOWN]) + (", ..." if len(names) > NAMES_SHOWN else "")
    return [
        Warning(
            f"Tasks mark arguments ({shown}), and dead letters keep those under a key made from SECRET_KEY: "
            "who has a copy of the one can read the other, and changing SECRET_KEY makes them unreadable.",
            hint="Set TASKYARD['ENCRYPTION_KEYS'] to a list with a long random text, the newest first.",
            id="taskyard.TY017",
        )
    ]
