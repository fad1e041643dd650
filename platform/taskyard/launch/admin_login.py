"""The login for the admin of a development database."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from django.contrib.auth import get_user_model
from django.db.models import Q

USERNAME = "admin"


@dataclass(frozen=True, slots=True)
class AdminLogin:
    """A superuser.

    Args:
        username: what to log in with.
        password: known only when the login was just made.
    """

    username: str
    password: str | None = None

    def describe(self) -> str:
        """Return what a person needs to know, in a few words."""
        if self.password is not None:
            return f"log in as {self.username} with the password {self.password} (shown this once)"
        return f"log in as {self.username}; a new password: manage.py changepassword {self.username}"


def ensure_admin_login() -> AdminLogin:
    """Return a superuser's login; made with a random password if the database has no superuser."""
    model = get_user_model()
    candidates = model._default_manager.filter(
        Q(is_superuser=True, is_active=True) | Q(**{model.USERNAME_FIELD: USERNAME})
    )
    existing = candidates.order_by("-is_superuser", "pk").first()
    if existing is not None:
        return AdminLogin(existing.get_username())
    password = secrets.token_urlsafe(12)
    fields = {model.USERNAME_FIELD: USERNAME, "password": password}
    for required in model.REQUIRED_FIELDS:
        fields.setdefault(required, "admin@localhost" if "email" in required else USERNAME)
    model._default_manager.create_superuser(**fields)
    return AdminLogin(USERNAME, password)
