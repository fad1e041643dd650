"""Structured logging, the same in every process: JSON in production, readable in development."""

from __future__ import annotations

import logging
import logging.config
import sys
from typing import Any

import structlog

from taskyard.conf import Settings

# Celery logs each outcome again in its own words, with argument values; our lines say it once (tasks/run_log.py).
_REPEATED = ("celery.app.trace", "celery.worker.strategy")


def configure_logging(settings: Settings) -> None:
    """Send the records of structlog and of the standard library through one formatter to stderr.

    Celery and Flower call their own set-up later; both are told to leave this one alone (see `celery_options` and
    the `setup_logging` receiver in `taskyard.worker.signals`).
    """
    shared = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(allow=()),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
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
                        *_renderers(wants_json(settings)),
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
            "loggers": {name: {"level": "WARNING"} for name in ("httpx", "httpcore", "amqp", "kombu", "PIL")},
        }
    )


def wants_json(settings: Settings) -> bool:
    """Return whether logs are for machines: as set, or anywhere but under DEBUG."""
    if settings.log_format != "auto":
        return settings.log_format == "json"
    from django.conf import settings as django_settings

    return not django_settings.DEBUG


def _renderers(as_json: bool) -> list[Any]:
    if as_json:
        return [
            structlog.processors.format_exc_info,
            structlog.processors.EventRenamer("message"),
            structlog.processors.JSONRenderer(default=str),
        ]
    # Without the values of local variables: they hold task arguments.
    return [
        structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(),
            exception_formatter=structlog.dev.plain_traceback,
            pad_event_to=0,
        )
    ]


class RepeatedOutcomeFilter(logging.Filter):
    """Drops what Celery logs about an outcome that our own line has reported, except its internal errors."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name not in _REPEATED:
            return True
        data = getattr(record, "data", None)
        is_outcome = isinstance(data, dict) and not data.get("internal")
        return record.levelno >= logging.WARNING and not is_outcome
