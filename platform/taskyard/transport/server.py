"""What the transport needs of a server, asked once a process."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from typing import Any

from redis.exceptions import ResponseError

from taskyard.errors import ConfigurationError

MIN_VERSION = (6, 2)
_fit: set[tuple[int, Hashable]] = set()


def refuse_unfit_server(broker: Hashable, make_client: Callable[[], Any]) -> None:
    """Refuse a server on which the promises can't be kept.

    Args:
        broker: names it; asked once a process.
        make_client: called only if it is asked, because a client may need a connection pool of its own.

    Raises:
        ConfigurationError: it runs in cluster mode, or is older than 6.2.
    """
    asked = (os.getpid(), broker)
    if asked in _fit:
        return
    try:
        client = make_client()
        info = client.info("server") | client.info("cluster")
    except ResponseError:
        # Some managed servers forbid the question.
        info = {}
    if info.get("cluster_enabled") or info.get("redis_mode") == "cluster":
        raise ConfigurationError(
            "The broker is a Redis Cluster: the keys of a queue would lie on different nodes. "
            "Use a single primary, with Sentinel or a managed failover; cluster mode must be off."
        )
    version = str(info.get("redis_version", "6.2"))
    if tuple(int(part) for part in version.split(".")[:2]) < MIN_VERSION:
        raise ConfigurationError(
            f"The broker is Redis {version}; the transport needs 6.2 or newer (or Valkey). "
            "Upgrade the server."
        )
    _fit.add(asked)
