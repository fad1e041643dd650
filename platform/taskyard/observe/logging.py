"""Structured logging, the same in every process: JSON in production, readable in development."""

from __future__ import annotations

import logging
import logging.config
import os
import sys
from typing import Any

import structlog
from structlog.typing import EventDict, Processor

from taskyard.conf import Settings
from taskyard.observe.log_masking import mask_marked_values

# Celery logs each outcome again in its own words, with argument values; our lines say it once
# (tasks/run_log.py, worker/request.py, worker/signals.py).
_REPEATED = (
    "celery.app.trace",
    "celery.worker.strategy",
    "celery.worker.consumer.connection",
    "celery.apps.worker",
)
_REPEATED_EVENTS = ("Task handler raised error", "Hard time limit", "Task %s[%s] retry")


def configure_logging(settings: Settings) -> None:
    """Send the records of structlog and of the standard library through one formatter to stderr.

    Celery and Flower call their own set-up later; both are told to leave this one alone (see `celery_options`
    and the `setup_logging` receiver in `taskyard.worker.signals`).
    """
    as_json = wants_json(settings)
    quiet = max("WARNING", settings.log_level, key=logging.getLevelNamesMapping().__getitem__)
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(allow=()),
        # for machines the whole moment in UTC, for people the time of day
        structlog.processors.TimeStamper(fmt="iso", utc=True)
        if as_json
        else structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
        mask_marked_values,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {
                "taskyard": {
                    "()": structlog.stdlib.ProcessorFormatter,
                    "processors": [
                        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                        *_renderers(as_json),
                    ],
                    "foreign_pre_chain": shared,
                }
            },
            "filters": {"repeated": {"()": RepeatedOutcomeFilter}},
            "handlers": {
                "stderr": {
                    "class": "logging.StreamHandler",
                    "stream": "ext://sys.stderr",
                    "formatter": "taskyard",
                    "filters": ["repeated"],
                }
            },
            "root": {"handlers": ["stderr"], "level": settings.log_level},
            # At INFO they talk about every request or connection.
            "loggers": {
                **{name: {"level": quiet} for name in ("httpx", "httpcore", "amqp", "kombu", "PIL")},
                # At DEBUG they write whole messages, with all arguments, and what tasks return.
                **{name: {"level": quiet} for name in ("celery.pool", "celery.concurrency")},
                # billiard's; it propagates only until billiard makes its pool
                "multiprocessing": {"handlers": ["stderr"], "level": quiet, "propagate": False},
            },
        }
    )


def wants_json(settings: Settings) -> bool:
    """Return whether logs are for machines: as set, or anywhere but under DEBUG."""
    if settings.log_format != "auto":
        return settings.log_format == "json"
    from django.conf import settings as django_settings

    return not django_settings.DEBUG


def _renderers(as_json: bool) -> list[Processor]:
    if as_json:
        return [
            structlog.processors.format_exc_info,
            structlog.processors.EventRenamer("message"),
            structlog.processors.JSONRenderer(default=str),
        ]
    return [
        _shorten,
        structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty() or bool(os.environ.get("FORCE_COLOR")),
            # without the values of local variables: they hold task arguments
            exception_formatter=structlog.dev.plain_traceback,
            pad_event_to=0,
            sort_keys=False,
        ),
    ]


_FIRST, _LAST = ("task", "queue", "attempt"), ("task_id", "correlation_id")


def _shorten(_: Any, __: str, event: EventDict) -> EventDict:
    """Say what a person at a terminal needs, what matters first: no names of our own loggers, no id twice."""
    if str(event.get("logger", "")).startswith("taskyard"):
        del event["logger"]
    if event.get("correlation_id") == event.get("task_id"):
        event.pop("correlation_id", None)
    middle = [name for name in event if name not in _FIRST and name not in _LAST]
    return {name: event[name] for name in (*_FIRST, *middle, *_LAST) if name in event}


class RepeatedOutcomeFilter(logging.Filter):
    """Drops what Celery logs about an outcome that our own line has reported, except its internal errors."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name == "celery.worker.request":
            return not str(record.msg).startswith(_REPEATED_EVENTS)
        if record.name not in _REPEATED:
            return True
        data = getattr(record, "data", None)
        is_outcome = isinstance(data, dict) and not data.get("internal")
        return record.levelno >= logging.WARNING and not is_outcome
