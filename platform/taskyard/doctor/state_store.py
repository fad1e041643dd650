"""Whether the state store answers and keeps its claims, where it is not the broker."""

from __future__ import annotations

from typing import Any

from redis.exceptions import RedisError

from taskyard.brokers import Finding
from taskyard.conf import DATABASE_STATE, Settings
from taskyard.errors import StateUnavailableError
from taskyard.masking import mask_url
from taskyard.state import state_store
from taskyard.state.redis_client import connect

TIMEOUT_SECONDS = 2.0


def check_state_store(settings: Settings) -> list[Finding]:
    """Where claims and leases are, and whether they are safe there."""
    if settings.state_url == DATABASE_STATE:
        return _in_the_database(settings)
    if settings.effective_state_url in settings.effective_broker_url.split(";"):
        return [Finding("state store", "ok", "on the broker")]
    url = mask_url(settings.effective_state_url)
    try:
        info, config = _ask(settings)
    except (RedisError, OSError) as error:
        return [Finding("state store", "error", f"{url}: {error}", "Start it, or set TASKYARD_STATE_URL.")]
    return _problems(url, info, config) or [Finding("state store", "ok", f"{url} answers")]


def _in_the_database(settings: Settings) -> list[Finding]:
    try:
        state_store(settings).ping()
    except StateUnavailableError as error:
        return [Finding("state store", "error", str(error), "See what the doctor says of the database.")]
    return [Finding("state store", "ok", "in the database")]


def _ask(settings: Settings) -> tuple[dict[str, Any], dict[str, Any]]:
    with connect(
        settings.effective_state_url,
        sentinel_master=settings.sentinel_master,
        timeout_seconds=TIMEOUT_SECONDS,
    ) as client:
        return client.info(), {**client.config_get("maxmemory-policy"), **client.config_get("appendonly")}


def _problems(url: str, info: dict[str, Any], config: dict[str, Any]) -> list[Finding]:
    found = []
    if info.get("redis_mode") == "cluster":
        advice = "Use a single primary (with Sentinel or managed failover)."
        found.append(Finding("state store", "error", f"{url} is a cluster", advice))
    policy = config.get("maxmemory-policy", "noeviction")
    if policy != "noeviction":
        detail = f"{url}: maxmemory-policy is {policy}: a full server deletes claims, and tasks run twice"
        found.append(Finding("state store", "error", detail, "Set maxmemory-policy to noeviction."))
    if config.get("appendonly") == "no":
        detail = f"{url}: appendonly is no: a restart forgets what is done"
        found.append(Finding("state store", "warning", detail, "Set appendonly to yes."))
    return found
