"""What a console can be asked to do for the tests in a browser."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client

from tests.probe_app import shop


def log_in(name: str, permissions: list[str]) -> str:
    """Make a member of the staff with these permissions, and return their session."""
    user = get_user_model().objects.create(username=name, is_staff=True)
    found = Permission.objects.filter(codename__in=permissions)
    user.user_permissions.set(found)
    client = Client()
    client.force_login(user)
    return str(client.cookies["sessionid"].value)


def order(task: str, args: list[Any]) -> str:
    """Call a task of the shop, and return its id."""
    return str(getattr(shop, task).apply_async(args).id)
