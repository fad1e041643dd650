"""What happens in a worker's processes when they start: logging, process groups, database connections."""

from __future__ import annotations

import os
from typing import Any

import structlog
from celery import signals
from django.db import close_old_connections, connections

from taskyard.launch.ready_file import touch_ready_file
from taskyard.masking import mask_url
from taskyard.tasks import soft_limit
from taskyard.worker import unapplied_migrations
from taskyard.worker.shutdown import install_graceful_shutdown

log = structlog.stdlib.get_logger("taskyard.worker")


def connect_worker_signals() -> None:
    """Connect the receivers, whichever command starts the worker, ours or Celery's."""
    signals.setup_logging.connect(_keep_our_logging, weak=False, dispatch_uid="taskyard.logging")
    signals.worker_before_create_process.connect(
        _close_connections, weak=False, dispatch_uid="taskyard.db.fork"
    )
    signals.worker_process_init.connect(_leave_process_group, weak=False, dispatch_uid="taskyard.pgid")
    signals.worker_process_init.connect(_watch_limits, weak=False, dispatch_uid="taskyard.soft_limit")
    signals.task_prerun.connect(_drop_stale_connections, weak=False, dispatch_uid="taskyard.db.prerun")
    signals.task_postrun.connect(_drop_stale_connections, weak=False, dispatch_uid="taskyard.db.postrun")
    signals.worker_ready.connect(_announce_ready, weak=False, dispatch_uid="taskyard.ready")


def _keep_our_logging(**_: Any) -> None:
    """A receiver of this signal tells Celery that logging is set up (by `taskyard.observe.logging`)."""


def _leave_process_group(**_: Any) -> None:
    # A SIGTERM to the whole process group (a shell, an init, a supervisor) would kill the children in the
    # middle of their tasks, which Celery then acknowledges: lost (c#9213). In a group of its own a child is
    # stopped by its parent only; if the parent dies, Celery's parent-death signal ends the child (Linux).
    try:
        os.setpgid(0, 0)
    except OSError:  # already a leader
        return


def _watch_limits(**_: Any) -> None:
    soft_limit.begin_process()


def _close_connections(**_: Any) -> None:
    # In the parent, before each fork: a connection shared by two processes mixes up their answers.
    connections.close_all()


def _drop_stale_connections(task: Any, **_: Any) -> None:
    if task.request.is_eager:
        return  # in the caller's process, perhaps in the middle of its transaction
    # Not "close": a new connection to PostgreSQL for each task costs more than most tasks. Celery's own
    # fix-up is told to leave them alone (CELERY_DB_REUSE_MAX), see the worker command.
    close_old_connections()


def _announce_ready(sender: Any, **_: Any) -> None:
    worker = sender.controller
    if not hasattr(worker.app, "settings"):
        return  # a stock application in the same process
    log.info(
        "worker ready",
        worker=worker.hostname,
        queues=",".join(worker.app.amqp.queues.consume_from),
        pool=worker.pool_cls.__module__.rpartition(".")[2],
        processes=worker.concurrency,
        prefetch=worker.prefetch_multiplier,
        broker=mask_url(worker.app.settings.effective_broker_url),
    )
    install_graceful_shutdown(worker, patience_seconds=worker.app.settings.soft_shutdown_seconds)
    touch_ready_file()
    unapplied_migrations.start_looking()
