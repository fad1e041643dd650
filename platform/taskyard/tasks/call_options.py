"""Options of a call that nothing reads: Celery and Kombu take any name, and a misspelt one has no effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from taskyard.errors import ArgumentError, did_you_mean
from taskyard.tasks import unique

log = structlog.stdlib.get_logger("taskyard.publish")

OWN = frozenset({"on_commit", *unique.OPTIONS})
_SEND_TASK = frozenset(
    {
        "add_to_parent",
        "chain",
        "chord",
        "connection",
        "countdown",
        "eta",
        "expires",
        "group_id",
        "group_index",
        "ignore_result",
        "link",
        "link_error",
        "parent_id",
        "producer",
        "publisher",
        "replaced_task_nesting",
        "reply_to",
        "result_cls",
        "retries",
        "root_id",
        "route_name",
        "router",
        "shadow",
        "soft_time_limit",
        "task_id",
        "task_type",
        "time_limit",
    }
)
_MESSAGE = frozenset({"argsrepr", "kwargsrepr", "now", "origin", "stamped_headers", "timezone"})
_PUBLISH = frozenset(
    {
        "compression",
        "confirm_timeout",
        "content_encoding",
        "content_type",
        "declare",
        "delivery_mode",
        "event_dispatcher",
        "exchange",
        "exchange_type",
        "expiration",
        "headers",
        "immediate",
        "mandatory",
        "priority",
        "queue",
        "retry",
        "retry_policy",
        "routing_key",
        "serializer",
        "timeout",
    }
)
# Of AMQP's basic properties those that a caller may set; and what a worker's delivery info carries, which
# Celery gives back as options where it repeats a message.
_PROPERTIES = frozenset(
    {"app_id", "cluster_id", "consumer_tag", "message_id", "redelivered", "timestamp", "type", "user_id"}
)
# Celery's canvas hands these on where a signature is turned into another one.
_CANVAS = frozenset({"chord_size", "eager", "interval", "max_retries", "propagate", "use_link"})
KNOWN = OWN | _SEND_TASK | _MESSAGE | _PUBLISH | _PROPERTIES | _CANVAS

# The parts of a canvas may be published by a worker, long after the call was made.
_OF_A_FAMILY = ("root_id", "parent_id", "group_id", "chord", "chain", "retries")
_warned: set[tuple[str, str]] = set()


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Refuse options that nothing reads.

    Those of a part of a canvas or of a retry are only logged, once for each option and task: to refuse them
    would lose what somebody has begun. What a stamping visitor sets is not checked.

    Raises:
        ArgumentError: names the option and the nearest one that exists.
    """
    if options.keys() <= KNOWN or "stamped_headers" in options:
        return
    unknown = sorted(options.keys() - KNOWN)
    if not any(options.get(option) for option in _OF_A_FAMILY):
        raise ArgumentError(f"The call of task {name!r} has {_described(unknown[0])}")
    for option in unknown:
        if (name, option) not in _warned:
            _warned.add((name, option))
            log.warning("unknown option of a call", task=name, problem=_described(option))


def _described(option: str) -> str:
    return (
        f"the unknown option {option!r}.{did_you_mean(option, KNOWN - _CANVAS)} Nothing reads it: correct or "
        "remove it; what your own code reads goes into headers={...}."
    )
