"""A worker on a database that is not migrated says so when it starts, in one line."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

import structlog
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.db import Error, connections, router
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

log = structlog.stdlib.get_logger("taskyard.worker")


def start_looking() -> threading.Thread:
    """Look for unapplied migrations without holding up the worker, and return the thread that does."""
    # A database that does not answer would hold up a connection attempt for minutes, and the worker with it.
    thread = threading.Thread(target=_look, name="taskyard-migrations", daemon=True)
    thread.start()
    return thread


def report_unapplied() -> None:
    """Log an error that names the kit's unapplied migrations; nothing if there are none, or no database."""
    try:
        missing = unapplied_migrations()
    except (Error, ImproperlyConfigured):
        return  # the first task that needs the database says it better
    if missing:
        log.error("migrations not applied, run `manage.py migrate`", missing=",".join(missing))


def unapplied_migrations() -> list[str]:
    """Return the migrations of the kit's installed apps that their database does not have, as `app.name`.

    Raises:
        django.db.Error: the database does not answer.
    """
    applied: dict[str, set[tuple[str, str]]] = {}
    missing = []
    for label in _labels():
        alias = _alias(label)
        if alias not in applied:
            applied[alias] = set(MigrationRecorder(connections[alias]).applied_migrations())
        missing += [f"{label}.{name}" for name in _names(label) if (label, name) not in applied[alias]]
    return missing


def _look() -> None:
    try:
        report_unapplied()
    finally:
        connections.close_all()  # those of this thread


def _labels() -> Iterator[str]:
    # those of the kit only: Django's loader would import the migrations of all apps into each worker
    return (app.label for app in apps.get_app_configs() if app.name.partition(".")[0] == "taskyard")


def _alias(label: str) -> str:
    model = next(iter(apps.get_app_config(label).get_models()), None)
    return router.db_for_write(model) if model else "default"


def _names(label: str) -> list[str]:
    module, _ = MigrationLoader.migrations_module(label)
    if module is None:
        return []  # the project has none, by MIGRATION_MODULES
    return sorted(
        name for _, name, is_package in iter_modules(import_module(module).__path__) if not is_package
    )
