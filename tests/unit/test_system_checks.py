"""The system checks: each firing and each silent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from celery import current_app, shared_task

from taskyard.checks import check_development_values, check_encryption_keys, check_explicit_names
from taskyard.conf import build_settings

ROOT = Path(__file__).parents[2]


@pytest.fixture
def use_settings(monkeypatch: pytest.MonkeyPatch):
    def use(**given):
        monkeypatch.setattr("taskyard.checks.production.get_settings", lambda: build_settings(given))

    return use


def texts() -> list[str]:
    return [str(message.msg) for message in check_development_values()]


def test_development_values_are_refused_one_by_one(settings, use_settings, monkeypatch) -> None:
    use_settings()
    settings.DEBUG = True
    monkeypatch.setitem(settings.DATABASES["default"], "ENGINE", "django.db.backends.sqlite3")

    assert texts() == [
        "DEBUG is on.",
        "The broker is the embedded one, a development server.",
        "The database is SQLite.",
        "Flower has no password.",
    ]
    assert {message.id for message in check_development_values()} == {"taskyard.TY017"}


def test_production_values_pass(settings, use_settings, monkeypatch) -> None:
    use_settings(BROKER_URL="redis://broker:6379/0", FLOWER_PASSWORD="long and random")
    settings.DEBUG = False
    monkeypatch.setitem(settings.DATABASES["default"], "ENGINE", "django.db.backends.postgresql")

    assert texts() == []


def test_a_name_made_from_the_module_is_warned_of() -> None:
    @shared_task
    def nameless() -> None: ...

    try:
        found = [message for message in check_explicit_names() if "nameless" in str(message.msg)]
        assert [message.id for message in found] == ["taskyard.TY009"]
        assert found[0].hint == "Give it a name of its own: @shared_task(name='<area>.<verb_object>')."
    finally:
        current_app.tasks.unregister(nameless.name)


def test_the_reference_tasks_have_names_of_their_own() -> None:
    assert [message.msg for message in check_explicit_names() if "'tasks." in str(message.msg)] == []


class TestEncryptionKeys:
    @pytest.fixture
    def keys(self, monkeypatch):
        def keys(*keys):
            monkeypatch.setattr(
                "taskyard.checks.marked_arguments.get_settings",
                lambda: build_settings({"ENCRYPTION_KEYS": list(keys)}),
            )

        return keys

    @pytest.fixture
    def marking(self):
        # not shared: every application that a later test makes would have it
        @current_app.task(name="checks.marking", redact=("card",), shared=False)
        def marking(card): ...

        yield
        current_app.tasks.unregister("checks.marking")

    def test_marked_arguments_under_the_key_of_the_sessions_are_warned_of(self, keys, marking) -> None:
        keys()

        (found,) = check_encryption_keys()

        assert found.id == "taskyard.TY017"
        assert found.msg.startswith("Tasks mark arguments (checks.marking")
        assert "ENCRYPTION_KEYS" in str(found.hint)

    def test_a_key_of_their_own_passes(self, keys, marking) -> None:
        keys("a long and random text")

        assert check_encryption_keys() == []

    def test_without_marked_arguments_there_is_nothing_to_encrypt(self, keys, monkeypatch) -> None:
        keys()
        for task in current_app.tasks.values():
            monkeypatch.setattr(task, "redact", (), raising=False)

        assert check_encryption_keys() == []


def test_the_tasks_of_an_app_that_nothing_has_imported_are_checked() -> None:
    """In a process of its own: this one has imported them."""
    program = (
        "import django, sys; django.setup(); from django.core.management import call_command; "
        "assert 'tasks.imports.tasks' not in sys.modules; call_command('check'); "
        "assert 'tasks.imports.tasks' in sys.modules"
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'platform'}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr[-2000:]
