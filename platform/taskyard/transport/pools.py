"""A producer pool that does not outwait the publish budget.

Kombu bounds the wait for a producer, but not the wait for the connection that the producer needs: with every
connection taken, a publish would wait for as long as the others hold theirs.
"""

from __future__ import annotations

from typing import Any

from kombu import pools

from taskyard.transport.deadline import remaining_seconds


class ProducerPool(pools.ProducerPool):
    """Kombu's pool; inside a deadline, it waits for a connection until then."""

    def _acquire_connection(self) -> Any:
        left = remaining_seconds()
        return self.connections.acquire(block=True, timeout=None if left is None else max(0.0, left))


class Producers(pools.PoolGroup):
    """One pool for each broker."""

    def create(self, connection: Any, limit: int) -> ProducerPool:
        return ProducerPool(pools.connections[connection], limit=limit)


producers = pools.register_group(Producers(limit=pools.use_global_limit))
