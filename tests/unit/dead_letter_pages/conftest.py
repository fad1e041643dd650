"""What the tests of the dead letter pages share: letters as workers write them, people with permissions."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from celery import current_app
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

from taskyard import create_app
from taskyard.conf import build_settings
from taskyard.tasks.failures import Failure

# Models are imported where they are used: pytest loads this file before Django's apps, if it is named first.
if TYPE_CHECKING:
    from taskyard.deadletters.models import DeadLetter


def place_order(order_id: int, card: str = "", *, currency: str = "EUR") -> None:
    """A task with an argument that is marked."""


@pytest.fixture
def app(memory_app: Any) -> Iterator[Any]:
    """The application of the web process, with a broker in memory and the task `shop.place_order`."""
    memory_app.task(name="shop.place_order", queue="high", redact=("card",))(place_order)
    memory_app.finalize()
    before = current_app._get_current_object()
    memory_app.set_current()
    yield memory_app
    before.set_current()


@pytest.fixture
def app_without_broker() -> Iterator[Any]:
    """The application of a web process whose broker does not answer."""
    settings = build_settings({"BROKER_URL": "redis://127.0.0.1:1/0", "PUBLISH_TIMEOUT_SECONDS": 0.2})
    app = create_app("unit", settings=settings, set_as_current=False)
    app.task(name="shop.place_order", shared=False)(place_order)
    app.finalize()
    before = current_app._get_current_object()
    app.set_current()
    yield app
    before.set_current()
    app.close()


@pytest.fixture
def make_letter(db: None) -> Callable[..., DeadLetter]:
    """Write a letter as a worker does; given are values of the failure, or columns to be set afterwards."""
    from taskyard.deadletters import counts, service
    from taskyard.deadletters.models import DeadLetter

    numbers = count(1)

    def make(**given: Any) -> DeadLetter:
        columns = {name: given.pop(name) for name in ("created_at", "status", "resolved_by") if name in given}
        number = next(numbers)
        values: dict[str, Any] = {
            "task_name": "shop.place_order",
            "task_id": f"task-{number}",
            "reason": "retries_exhausted",
            "queue": "high",
            "priority": 7,
            "args": [number],
            "error": "CardDeclined: no money",
            "error_type": "shop.errors.CardDeclined",
            "error_place": "shop/cards.py:10 in charge",
            "correlation_id": f"request-{number}",
        }
        service.record(Failure(**(values | given)))
        letter = DeadLetter.objects.latest("pk")
        if columns:
            DeadLetter.objects.filter(pk=letter.pk).update(**columns)
            counts.repair()
            letter.refresh_from_db()
        return letter

    return make


@pytest.fixture
def letter(make_letter: Callable[..., DeadLetter]) -> DeadLetter:
    return make_letter()


@pytest.fixture
def sealed_letter(make_letter: Callable[..., DeadLetter]) -> DeadLetter:
    """A letter whose second argument is marked."""
    return make_letter(args=[7, "******"], true_args=[7, "4111-1111"])


@pytest.fixture
def log_in(db: None) -> Callable[..., Client]:
    """Make a member of the staff with permissions of the app by name, and return their browser."""

    from django.contrib.auth.models import Permission

    def log_in(name: str, *permissions: str, enforces_csrf: bool = False) -> Client:
        # Without a password: to hash one takes longer than all the rest.
        user = get_user_model().objects.create(username=name, is_staff=True)
        wanted = Permission.objects.filter(content_type__app_label="deadletters", codename__in=permissions)
        assert len(wanted) == len(permissions)
        user.user_permissions.set(wanted)
        client = Client(enforce_csrf_checks=enforces_csrf)
        client.force_login(user)
        return client

    return log_in


@pytest.fixture
def anna(log_in: Callable[..., Client]) -> Client:
    """On call: may do everything with dead letters."""
    actions = ("view", "replay", "discard", "reveal")
    return log_in("anna", *(f"{action}_deadletter" for action in actions))


@pytest.fixture
def reader(log_in: Callable[..., Client]) -> Client:
    """May look at dead letters, and nothing else."""
    return log_in("rita", "view_deadletter")


def address(name: str, *args: Any) -> str:
    """Return the address of a page by the end of its name: `deadletter_faults`."""
    return reverse(f"admin:deadletters_{name}", args=args)


def text_of(response: Any) -> str:
    """Return what a person reads on the page, on one line."""
    assert response.status_code == 200, response
    without_tags = re.sub(r"<(script|style|svg).*?</\1>|<[^>]*>", " ", response.content.decode(), flags=re.S)
    return " ".join(html.unescape(without_tags).split())


def messages_of(response: Any) -> list[str]:
    """Return the messages that the page after a redirect shows."""
    return [str(message) for message in response.context["messages"]]
