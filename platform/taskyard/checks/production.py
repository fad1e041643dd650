"""TY017: no development values in production; runs with `manage.py check --deploy`."""

from __future__ import annotations

from typing import Any

from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Tags, register

from taskyard.conf import get_settings


@register(Tags.security, deploy=True)
def check_development_values(**_: Any) -> list[CheckMessage]:
    """Refuse the embedded broker, SQLite, DEBUG and Flower without a login."""
    settings, problems = get_settings(), []
    if django_settings.DEBUG:
        problems.append(("DEBUG is on.", "Leave DJANGO_DEBUG unset."))
    if settings.uses_embedded_broker:
        problems.append(
            ("The broker is the embedded one, a development server.", "Set TASKYARD_BROKER_URL to a server.")
        )
    if django_settings.DATABASES["default"]["ENGINE"].endswith("sqlite3"):
        problems.append(("The database is SQLite.", "Set DATABASE_URL to PostgreSQL."))
    if settings.flower_password is None:
        problems.append(("Flower has no password.", "Set TASKYARD_FLOWER_PASSWORD."))
    return [Error(text, hint=hint, id="taskyard.TY017") for text, hint in problems]
