"""The password of Flower: the one in the settings, or a new one in development."""

from __future__ import annotations

import os
import secrets

from django.conf import settings as django_settings

from taskyard.conf import Settings
from taskyard.errors import LaunchError

PASSWORD_VARIABLE = "TASKYARD_FLOWER_PASSWORD"  # noqa: S105 - the name, not the password


def given_or_new_password(settings: Settings) -> tuple[str, bool]:
    """Return the password, and whether it was just made.

    Raises:
        LaunchError: none is set, and this is not development.
    """
    given = settings.flower_password.get_secret_value() if settings.flower_password is not None else ""
    # `manage.py up` passes the one that it shows in this variable, also where a project's settings do not
    # read the environment.
    given = given or os.environ.get(PASSWORD_VARIABLE, "")
    if given:
        return given, False
    if not django_settings.DEBUG:
        raise LaunchError(
            "Flower has no password, and without one everybody who reaches it can stop workers and tasks. "
            "Set TASKYARD_FLOWER_PASSWORD."
        )
    return secrets.token_urlsafe(12), True
