"""Redis and Valkey: the options that make the stock parts of Kombu safe, and the questions a doctor asks."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import redis
from redis.sentinel import Sentinel

from taskyard.brokers.interface import Finding
from taskyard.conf import Settings
from taskyard.errors import BrokerUnavailableError
from taskyard.masking import mask_url
from taskyard.transport.keys import STEPS_BY_URGENCY, keys_by_urgency

MIN_VERSION = (6, 2)
MEMORY_WARNING = 0.8
SENTINEL_PORT = 26379
# How much longer than the longest hard limit a message may stay unacknowledged before it is handed out again.
VISIBILITY_MARGIN_SECONDS = 600


class RedisBroker:
    """The profile of Redis, Valkey and Redis behind Sentinel.

    Args:
        uses_sentinel: the URL names Sentinels, which name the primary.
    """

    name = "redis"

    def __init__(self, *, uses_sentinel: bool = False) -> None:
        self.uses_sentinel = uses_sentinel

    def celery_options(self, settings: Settings) -> dict[str, Any]:
        transport = "SentinelTransport" if self.uses_sentinel else "Transport"
        options = self._transport_options(settings)
        return {
            "broker_url": settings.effective_broker_url,
            "broker_transport": f"taskyard.transport.redis:{transport}",
            "broker_transport_options": options,
            "result_backend_transport_options": {"global_keyprefix": settings.key_prefix}
            if settings.key_prefix
            else {},
            "redis_socket_timeout": settings.socket_timeout_seconds,
            "redis_socket_connect_timeout": min(4.0, settings.socket_timeout_seconds),
            "redis_socket_keepalive": True,
            # Not `redis_retry_on_timeout`: a write that timed out may have happened.
            # What runs while the connection is cut is acknowledged over the next one: cancelling it, or
            # reserving less afterwards, would only cost time.
            "worker_cancel_long_running_tasks_on_connection_loss": False,
            "worker_enable_prefetch_count_reduction": False,
        }

    def _transport_options(self, settings: Settings) -> dict[str, Any]:
        longest = max(spec.time_limit_seconds for spec in settings.queue_table.values())
        return {
            # For what stock workers hold. Longer than any task may run: a shorter one hands out a running
            # task a second time (c#5935, c#3270).
            "visibility_timeout": longest + VISIBILITY_MARGIN_SECONDS,
            # A solo pool runs the task in its event loop, which then counts as healthy for this long.
            "lease_busy_seconds": longest + VISIBILITY_MARGIN_SECONDS,
            # The sweep for what stock workers left: every 10 s; stock looks every 100 s (k#2558).
            "unacked_restore_interval": 10,
            "unacked_restore_throttle": 1,
            "queue_order_strategy": "priority",
            # For Flower's broker page and other readers; our channel has the same order built in.
            "priority_steps": list(STEPS_BY_URGENCY),
            "sep": "\x06\x16",
            # Without timeouts a frozen server holds a web request for ever (c#4296, k#1463).
            "socket_timeout": settings.socket_timeout_seconds,
            "socket_connect_timeout": min(4.0, settings.socket_timeout_seconds),
            "socket_keepalive": True,
            "health_check_interval": 10,
            **self._shared_options(settings),
        }

    def _shared_options(self, settings: Settings) -> dict[str, Any]:
        """What broker and result backend are both told."""
        options = {"global_keyprefix": settings.key_prefix, "master_name": settings.sentinel_master}
        return {name: value for name, value in options.items() if value}

    def publish_transport_options(self, settings: Settings) -> dict[str, Any]:
        budget = settings.publish_timeout_seconds
        return {
            "socket_timeout": budget,
            "socket_connect_timeout": budget,
            # Kombu's own reconnect loop has no end by default; the publish loop has one.
            "max_retries": 1,
            "interval_start": 0,
            "interval_step": 0,
            "interval_max": 0,
            "connect_retries_timeout": budget,
        }

    def client(self, settings: Settings, *, timeout_seconds: float) -> redis.Redis:
        """Return a client of the broker (with Sentinel, of its primary), every operation with the timeout."""
        timeouts = {"socket_timeout": timeout_seconds, "socket_connect_timeout": timeout_seconds}
        urls = settings.effective_broker_url.split(";")
        if not self.uses_sentinel:
            return redis.Redis.from_url(urls[0], **timeouts)
        parts = [urlsplit(url) for url in urls]
        sentinels = [(part.hostname or "127.0.0.1", part.port or SENTINEL_PORT) for part in parts]
        primary = Sentinel(sentinels, sentinel_kwargs=timeouts, password=parts[0].password, **timeouts)  # type: ignore[no-untyped-call]
        return primary.master_for(settings.sentinel_master or "")  # type: ignore[no-untyped-call]

    def waiting(self, settings: Settings, *, timeout_seconds: float) -> dict[str, int]:
        try:
            with (
                self.client(settings, timeout_seconds=timeout_seconds) as client,
                client.pipeline(False) as pipe,
            ):
                for queue in settings.queue_table:
                    for key in keys_by_urgency(queue):
                        pipe.llen(settings.key_prefix + key)
                counts = pipe.execute()
        except redis.RedisError as error:
            raise BrokerUnavailableError(
                f"The broker {mask_url(settings.effective_broker_url)} does not answer: {error}. "
                "Is it running?"
            ) from error
        width = len(STEPS_BY_URGENCY)
        return {
            queue: sum(counts[place * width : (place + 1) * width])
            for place, queue in enumerate(settings.queue_table)
        }

    def diagnose(self, settings: Settings, *, timeout_seconds: float) -> list[Finding]:
        url = mask_url(settings.effective_broker_url)
        try:
            with self.client(settings, timeout_seconds=timeout_seconds) as client:
                info = client.info()
                config = {**client.config_get("maxmemory-policy"), **client.config_get("appendonly")}
        except (redis.RedisError, BrokerUnavailableError, OSError) as error:
            start = (
                "Start it with `make up` or `make services`"
                if settings.uses_embedded_broker
                else "Start the server"
            )
            return [Finding("broker", "error", f"{url}: {error}", f"{start}, or set TASKYARD_BROKER_URL.")]
        return [
            Finding("broker", "ok", f"{url} answers"),
            *_version_finding(info),
            *_policy_findings(config),
            *_memory_findings(info),
        ]


def _version_finding(info: dict[str, Any]) -> list[Finding]:
    name = "valkey" if "valkey_version" in info else "redis"
    text = str(info.get("valkey_version") or info.get("redis_version", "0"))
    if info.get("redis_mode") == "cluster":
        return [
            Finding(
                "broker mode",
                "error",
                "cluster mode",
                "Use a single primary (with Sentinel or managed failover).",
            )
        ]
    compatible = tuple(int(part) for part in str(info.get("redis_version", "0.0")).split(".")[:2])
    if compatible < MIN_VERSION:
        return [Finding("broker version", "error", f"{name} {text}", "Use Redis 6.2 or newer, or Valkey.")]
    return [Finding("broker version", "ok", f"{name} {text}")]


def _policy_findings(config: dict[str, Any]) -> list[Finding]:
    policy, append_only = config.get("maxmemory-policy"), config.get("appendonly")
    findings = []
    if policy is None:
        findings.append(
            Finding(
                "eviction",
                "warning",
                "the server does not tell its policy",
                "Make sure that it is noeviction.",
            )
        )
    elif policy != "noeviction":
        findings.append(
            Finding(
                "eviction",
                "error",
                f"maxmemory-policy is {policy}: a full server deletes waiting tasks without a word",
                "Set maxmemory-policy to noeviction, and give the broker a server of its own.",
            )
        )
    else:
        findings.append(Finding("eviction", "ok", "maxmemory-policy is noeviction"))
    if append_only == "no":
        findings.append(
            Finding(
                "durability",
                "warning",
                "appendonly is no: a restart loses waiting tasks",
                "Set appendonly to yes.",
            )
        )
    elif append_only:
        findings.append(Finding("durability", "ok", "appendonly is yes"))
    return findings


def _memory_findings(info: dict[str, Any]) -> list[Finding]:
    limit, used = int(info.get("maxmemory", 0)), int(info.get("used_memory", 0))
    findings = []
    if limit and used / limit > MEMORY_WARNING:
        findings.append(
            Finding(
                "memory",
                "warning",
                f"{used / limit:.0%} of maxmemory is used",
                "Raise maxmemory or drain the queues.",
            )
        )
    if evicted := int(info.get("evicted_keys", 0)):
        findings.append(
            Finding(
                "evictions",
                "error",
                f"{evicted} keys were evicted: tasks may be lost",
                "Set noeviction, then look for the lost tasks.",
            )
        )
    return findings
