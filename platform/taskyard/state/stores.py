"""Which state store a project uses."""

from __future__ import annotations

from functools import lru_cache

from taskyard.conf import DATABASE_STATE, Settings
from taskyard.state.interface import StateStore

# An idle state store must not hold a task for long; a busy one answers in well under a millisecond.
TIMEOUT_SECONDS = 2.0


def state_store(settings: Settings) -> StateStore:
    """Return the state store of the settings, one a process and address."""
    if settings.state_url == DATABASE_STATE:
        return _database_store()
    return _redis_store(settings.effective_state_url, settings.key_prefix, settings.sentinel_master)


@lru_cache(maxsize=1)
def _database_store() -> StateStore:
    from taskyard.state.database import DatabaseStore

    return DatabaseStore()


@lru_cache(maxsize=8)
def _redis_store(url: str, prefix: str, sentinel_master: str | None) -> StateStore:
    from taskyard.state.redis import RedisStore

    return RedisStore(url, prefix=prefix, sentinel_master=sentinel_master, timeout_seconds=TIMEOUT_SECONDS)
