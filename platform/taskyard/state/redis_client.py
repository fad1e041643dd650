"""A client for state: short timeouts, and one more try where a connection was cut."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry
from redis.sentinel import Sentinel

from taskyard.transport.deadline import DeadlineConnection, DeadlineSSLConnection

SENTINEL_PORT = 26379
# Every thread or greenlet that waits for an answer has a connection.
MAX_CONNECTIONS = 10_000
_WITH_DEADLINE = {redis.Connection: DeadlineConnection, redis.SSLConnection: DeadlineSSLConnection}


def connect(url: str, *, sentinel_master: str | None, timeout_seconds: float) -> redis.Redis:
    """Return a client for the primary; it connects at its first use, and again in a forked child.

    Args:
        url: redis://, rediss:// or sentinel://. Of several servers it takes the first: claims on two servers
            would be no claims. Several Sentinels, separated by ';', watch one primary.
        sentinel_master: its name.
        timeout_seconds: for connecting, and for each answer.
    """
    options: dict[str, Any] = {
        "socket_timeout": timeout_seconds,
        "socket_connect_timeout": timeout_seconds,
        "socket_keepalive": True,
    }
    urls = url.split(";")
    # A connection that the server has closed meanwhile fails once. A timeout is not tried again: it would
    # double.
    retry = Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,))
    own = {"decode_responses": True, "retry": retry, "max_connections": MAX_CONNECTIONS}
    if urlsplit(urls[0]).scheme != "sentinel":
        client = redis.Redis.from_url(urls[0], **options, **own)
        # inside a publish, an answer takes no longer than its budget
        pool = client.connection_pool
        pool.connection_class = _WITH_DEADLINE.get(pool.connection_class, pool.connection_class)
        return client
    parts = [urlsplit(each) for each in urls]
    sentinels = [(part.hostname or "127.0.0.1", part.port or SENTINEL_PORT) for part in parts]
    login = {"username": parts[0].username, "password": parts[0].password, "db": parts[0].path.strip("/")}
    given = {name: unquote(value) for name, value in login.items() if value}
    watched = Sentinel(sentinels, sentinel_kwargs=options, **options, **given)  # type: ignore[no-untyped-call]
    return watched.master_for(sentinel_master or "", **own)  # type: ignore[no-untyped-call]
