"""The Celery configuration that Taskyard sets, each option with its reason.

References: c# is an issue of celery/celery, k# of celery/kombu.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from celery.app.defaults import SETTING_KEYS
from celery.schedules import crontab
from kombu import Exchange, Queue

from taskyard.brokers import broker_for
from taskyard.conf import Settings
from taskyard.errors import SettingsError, did_you_mean
from taskyard.priority import Priority
from taskyard.queues import QueueTable
from taskyard.routing import QueueRouter

PREFIX = "CELERY_"
MINUTE_SECONDS = 60
DAY_SECONDS = 24 * 3600
DB_REUSE_MAX = "CELERY_DB_REUSE_MAX"
# Of the values of RESULT_BACKEND that are no URLs. Celery knows the second one, too, but not what to hide.
RESULT_BACKENDS = {"disabled": None, "django-db": "taskyard.database_results:DatabaseBackend"}
# Options that a promise stands on, or that another setting decides.
RESERVED = {
    "CELERY_ACCEPT_CONTENT": "Messages are JSON only (TY007); leave it out.",
    "CELERY_RESULT_ACCEPT_CONTENT": "Results are JSON only (TY007); leave it out.",
    "CELERY_TASK_SERIALIZER": "Messages are JSON only (TY007); leave it out.",
    "CELERY_RESULT_SERIALIZER": "Results are JSON only (TY007); leave it out.",
    "CELERY_ENABLE_UTC": "Times are UTC (TY008); leave it out.",
    "CELERY_TIMEZONE": "Times are UTC (TY008); leave it out.",
    "CELERY_TASK_QUEUES": "Set TASKYARD['QUEUES'] instead.",
    "CELERY_TASK_DEFAULT_QUEUE": "Set TASKYARD['DEFAULT_QUEUE'] instead.",
    "CELERY_TASK_ROUTES": "Give name_rules or content_rules to create_app() instead.",
    "CELERY_TASK_ALWAYS_EAGER": "Eager mode ignores limits, retries and queues; run a real worker in tests.",
}


def build_options(settings: Settings, router: QueueRouter) -> dict[str, Any]:
    """Return the whole Celery configuration: ours, the broker's, then the project's own `CELERY_*`.

    Raises:
        SettingsError: a `CELERY_*` setting is unknown; comes with a suggestion.
    """
    options = _base_options(settings, router)
    options.update(broker_for(settings).celery_options(settings))
    own_schedules = options["beat_schedule"]
    options.update(project_options())
    options["beat_schedule"] = {**own_schedules, **options["beat_schedule"]}
    return options


def _base_options(settings: Settings, router: QueueRouter) -> dict[str, Any]:
    table = settings.queue_table
    widest = max(table.values(), key=lambda spec: spec.time_limit_seconds)
    return {
        # JSON only, in both directions: a pickle on the broker is code execution (c#2662).
        "task_serializer": "json",
        "result_serializer": "json",
        "event_serializer": "json",
        "accept_content": ["json"],
        "result_accept_content": ["json"],
        # One time zone for messages, schedules and results; local time exists for people only (c#6438).
        "enable_utc": True,
        "timezone": "UTC",
        # Acknowledge after the run: a worker that dies in the middle gives the task back.
        "task_acks_late": True,
        # A failure that was handled (retried, dead-lettered) is acknowledged; otherwise it would run for
        # ever.
        "task_acks_on_failure": True,
        "task_acks_on_timeout": True,
        # A lost child is by default acknowledged and gone; plain reject loops without a bound (c#1628,
        # c#3541). The bound is MAX_WORKER_LOSSES, see taskyard.worker.request.
        "task_retry_on_worker_lost": True,
        "task_reject_on_worker_lost": False,
        # The queue's limits are applied to each request; these are the net for messages without a known
        # queue.
        "task_soft_time_limit": widest.soft_time_limit_seconds,
        "task_time_limit": widest.time_limit_seconds,
        # Queues are declared, never made by a misspelling: a message in a queue nobody reads is lost work
        # (c#4207).
        "task_queues": _kombu_queues(table),
        "task_default_queue": table.default,
        "task_default_exchange": table.default,
        "task_default_routing_key": table.default,
        "task_create_missing_queues": False,
        "task_routes": (router,),
        "task_default_priority": int(Priority.NORMAL),
        # Results are opt-in: a subscription per .delay() leaks memory in web processes (c#6963) and makes a
        # publish wait for the result backend (c#4296).
        "task_ignore_result": True,
        "task_store_errors_even_if_ignored": False,
        "result_backend": RESULT_BACKENDS.get(
            settings.result_backend or "", settings.effective_result_backend
        ),
        "result_expires": settings.result_expires_seconds,
        # name, args, queue and retries with the result, where there is one
        "result_extended": True,
        # only where results are on: Celery writes no STARTED for a task that ignores its result
        "task_track_started": True,
        # One attempt inside Kombu; the loop around it holds the budget (taskyard.tasks.publish).
        "task_publish_retry": True,
        "task_publish_retry_policy": {
            "max_retries": 1,
            "interval_start": 0,
            "interval_step": 0,
            "interval_max": 0,
        },
        # A pool that is used up must not wait for longer than the publish may take.
        "broker_pool_acquire_timeout": settings.publish_timeout_seconds,
        "broker_connection_timeout": min(4.0, settings.publish_timeout_seconds),
        # A worker that starts before its broker waits for it, and a lost connection is tried for ever: an
        # orchestrator restarts what exits, which helps nobody while the broker is away.
        "broker_connection_retry": True,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        # Soft shutdown: running tasks get this long, then go back to the queue at once (c#4795, c#2700).
        "worker_soft_shutdown_timeout": settings.soft_shutdown_seconds,
        # A task whose connection is gone cannot be acknowledged: stop it, since it runs again elsewhere.
        "worker_cancel_long_running_tasks_on_connection_loss": True,
        # Reserve little: short tasks must not wait behind a long one while others idle (c#3434, c#2788).
        "worker_prefetch_multiplier": 1,
        # Flower and the dashboards need events; they are off by default, which leaves both empty.
        "worker_send_task_events": True,
        "task_send_sent_event": False,
        # Its own reader and writer of state per process; rebuild children so that leaks end.
        "worker_max_tasks_per_child": 10_000,
        # Our own structured logging is set up through the setup_logging signal.
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        # Celery's Django fix-up closes every connection before and after each task; ours are kept while they
        # are good (taskyard.worker.signals). It reads this upper-case name only.
        DB_REUSE_MAX: 1_000_000_000,
        # The consumer that keeps what it cannot understand (taskyard.worker.consumer).
        "worker_consumer": "taskyard.worker.consumer:Consumer",
        # Control and event queues of dead processes expire (c#6089).
        "control_queue_expires": 60.0,
        "event_queue_expires": 60.0,
        # 02:30 on a day that has none is the scheduler's business; beat re-reads the database this often.
        "beat_scheduler": "django_celery_beat.schedulers:DatabaseScheduler",
        "beat_max_loop_interval": 5,
        # What the kit's own tables need; the project's schedules come beside them.
        "beat_schedule": kit_schedules(),
    }


def _kombu_queues(table: QueueTable) -> tuple[Queue, ...]:
    return tuple(Queue(name, Exchange(name, type="direct"), routing_key=name) for name in table)


def kit_schedules() -> dict[str, dict[str, Any]]:
    """Return the schedules of the kit's own tasks, as far as their apps are installed; beat writes them down.

    A message that waited for one interval is not run: the next one is there.
    """
    from django.conf import settings as django_settings

    schedules: dict[str, dict[str, Any]] = {}
    if any(name.startswith("taskyard.deadletters") for name in django_settings.INSTALLED_APPS):
        schedules["deadletters.recover"] = {
            "task": "deadletters.recover",
            "schedule": MINUTE_SECONDS,
            "options": {"expire_seconds": MINUTE_SECONDS},
        }
        schedules["deadletters.purge_resolved"] = {
            "task": "deadletters.purge_resolved",
            "schedule": crontab(minute="30", hour="3"),
            "options": {"expire_seconds": DAY_SECONDS},
        }
    if any(name.startswith("taskyard.operations") for name in django_settings.INSTALLED_APPS):
        schedules["operations.purge_effects"] = {
            "task": "operations.purge_effects",
            "schedule": crontab(minute="45", hour="3"),
            "options": {"expire_seconds": DAY_SECONDS},
        }
        schedules["operations.purge_tracked_tasks"] = {
            "task": "operations.purge_tracked_tasks",
            "schedule": crontab(minute="50", hour="3"),
            "options": {"expire_seconds": DAY_SECONDS},
        }
    return schedules


def project_options() -> dict[str, Any]:
    """Return the project's own `CELERY_*` Django settings by Celery's lower-case names."""
    from django.conf import settings as django_settings

    given = {name: getattr(django_settings, name) for name in dir(django_settings) if name.startswith(PREFIX)}
    return check_project_options(given)


def check_project_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return `CELERY_*` settings under Celery's names, or raise `SettingsError` listing the unknown ones."""
    known = {f"{PREFIX}{key.upper()}" for key in SETTING_KEYS}
    problems = [
        f"{name} is not a Celery setting.{did_you_mean(name, known)}"
        for name in sorted(given)
        if name not in known
    ]
    problems += [
        f"{name} is not yours to set. {RESERVED[name]}" for name in sorted(given) if name in RESERVED
    ]
    if problems:
        raise SettingsError(problems)
    return {name.removeprefix(PREFIX).lower(): value for name, value in given.items()}
