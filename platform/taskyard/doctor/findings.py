"""What the doctor looks at, one function a part. Each ends within its time and never raises."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.metadata import version

from django.conf import settings as django_settings

from taskyard.brokers import Finding, broker_for
from taskyard.conf import Settings
from taskyard.doctor.state_store import check_state_store
from taskyard.errors import BrokerUnavailableError
from taskyard.masking import mask_url

TIMEOUT_SECONDS = 2.0
# Above this, somebody should look before more work piles up (the alert has the same value).
DEPTH_WARNING = 1000

Check = Callable[[Settings], list[Finding]]


def check_versions(_: Settings) -> list[Finding]:
    """Celery, Kombu, Django and django-celery-beat as installed."""
    names = ("celery", "kombu", "django", "django-celery-beat", "redis")
    return [Finding("versions", "ok", ", ".join(f"{name} {version(name)}" for name in names))]


def check_broker(settings: Settings) -> list[Finding]:
    """Whether the broker answers and is fit for the promise."""
    return broker_for(settings).diagnose(settings, timeout_seconds=TIMEOUT_SECONDS)


def check_queues(settings: Settings) -> list[Finding]:
    """How much waits on each queue."""
    try:
        waiting = broker_for(settings).waiting(settings, timeout_seconds=TIMEOUT_SECONDS)
    except BrokerUnavailableError as error:
        return [Finding("queues", "error", str(error), "Start the broker first.")]
    text = ", ".join(f"{queue} {count}" for queue, count in waiting.items())
    full = [queue for queue, count in waiting.items() if count > DEPTH_WARNING]
    if full:
        advice = f"Add workers for {', '.join(full)}: manage.py worker --queue ..."
        return [Finding("queues", "warning", text, advice)]
    return [Finding("queues", "ok", f"waiting: {text}")]


def check_workers(settings: Settings) -> list[Finding]:
    """Which queues have a live worker, by asking all workers over the broker."""
    from celery import current_app

    try:
        with current_app.connection_for_write() as connection:
            active = current_app.control.inspect(timeout=1.0, connection=connection).active_queues() or {}
    except Exception as error:  # the broker's own finding says why; this one must not hide the rest
        return [Finding("workers", "error", f"not asked: {type(error).__name__}", "Start the broker first.")]
    served = {queue["name"] for queues in active.values() for queue in queues}
    missing = [queue for queue in settings.queue_table if queue not in served]
    if missing:
        return [
            Finding(
                "workers",
                "warning",
                f"{len(active)} alive, none on: {', '.join(missing)}",
                "Start them with `make up`, or one by one: make worker QUEUE=" + missing[0],
            )
        ]
    return [Finding("workers", "ok", f"{len(active)} alive, all queues served")]


def check_database(_: Settings) -> list[Finding]:
    """Whether the database answers and is migrated."""
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    database = django_settings.DATABASES["default"]
    kind = f"{connection.vendor} {database.get('HOST') or database['NAME']}"
    try:
        connection.ensure_connection()
        executor = MigrationExecutor(connection)
        pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except Exception as error:
        first_line = str(error).strip().partition("\n")[0]
        return [Finding("database", "error", f"{kind}: {first_line}", "Start it, or set DATABASE_URL.")]
    findings = [Finding("database", "ok", f"{kind} answers")]
    if pending:
        findings.append(Finding("migrations", "error", f"{len(pending)} not applied", "Run: make migrate"))
    else:
        findings.append(Finding("migrations", "ok", "all applied"))
    return findings


def check_dead_letters(_: Settings) -> list[Finding]:
    """How many tasks wait for a person."""
    from django.apps import apps

    if not apps.is_installed("taskyard.deadletters"):
        return [
            Finding(
                "dead letters",
                "error",
                "taskyard.deadletters is not in INSTALLED_APPS: failed tasks are kept in the log only",
                "Add it and migrate.",
            )
        ]
    from taskyard.deadletters.filters import DeadLetterFilter
    from taskyard.deadletters.groups import count_letters

    try:
        count = count_letters(DeadLetterFilter())
    except Exception as error:
        return [
            Finding("dead letters", "error", f"not readable: {type(error).__name__}", "Run: make migrate")
        ]
    if count:
        return [
            Finding(
                "dead letters", "warning", f"{count:,} open", "Look at them: manage.py deadletters groups"
            )
        ]
    return [Finding("dead letters", "ok", "none")]


def check_results(settings: Settings) -> list[Finding]:
    """Whether the result backend answers."""
    if settings.result_backend == "disabled":
        return [Finding("results", "ok", "disabled")]
    if settings.result_backend == "django-db":
        return [Finding("results", "ok", "in the database")]
    import redis

    url = settings.effective_result_backend.split(";")[0]
    if url.startswith("sentinel"):
        return [Finding("results", "ok", f"{mask_url(url)} (behind Sentinel, not asked)")]
    try:
        with redis.Redis.from_url(
            url, socket_timeout=TIMEOUT_SECONDS, socket_connect_timeout=TIMEOUT_SECONDS
        ) as client:
            client.ping()
    except redis.RedisError as error:
        return [
            Finding(
                "results", "error", f"{mask_url(url)}: {error}", "Start it, or set TASKYARD_RESULT_BACKEND."
            )
        ]
    return [Finding("results", "ok", f"{mask_url(url)} answers")]


def check_production(settings: Settings) -> list[Finding]:
    """Development values that must not reach production."""
    if django_settings.DEBUG:
        return [Finding("mode", "ok", "development (DJANGO_DEBUG=1)")]
    findings = []
    if settings.uses_embedded_broker:
        findings.append(
            Finding(
                "mode", "error", "the embedded broker in production", "Set TASKYARD_BROKER_URL to a server."
            )
        )
    if django_settings.DATABASES["default"]["ENGINE"].endswith("sqlite3"):
        findings.append(Finding("mode", "error", "SQLite in production", "Set DATABASE_URL to PostgreSQL."))
    if settings.flower_password is None:
        findings.append(Finding("mode", "warning", "Flower has no password", "Set TASKYARD_FLOWER_PASSWORD."))
    return findings or [Finding("mode", "ok", "production values")]


def check_user(_: Settings) -> list[Finding]:
    """Whether workers would run as root."""
    if hasattr(os, "geteuid") and os.geteuid() == 0 and not django_settings.DEBUG:
        return [Finding("user", "warning", "this process is root", "Run workers as a user of their own.")]
    return []


CHECKS: tuple[Check, ...] = (
    check_versions,
    check_production,
    check_user,
    check_database,
    check_broker,
    check_state_store,
    check_results,
    check_queues,
    check_workers,
    check_dead_letters,
)


def diagnose(settings: Settings) -> list[Finding]:
    """Return everything that the doctor finds, in the order in which a person would look."""
    return [finding for check in CHECKS for finding in check(settings)]
