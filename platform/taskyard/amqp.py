"""How messages are published: with which connections, and what comes next after a run that has succeeded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery.app.amqp import AMQP as CeleryAMQP
from celery.exceptions import Reject
from kombu import Connection as KombuConnection
from kombu.exceptions import EncodeError, OperationalError

from taskyard.errors import ArgumentError
from taskyard.transport.pools import ProducerPool, producers


class Connection(KombuConnection):
    """Kombu's, named in logs and on Flower's broker page by its URL instead of by a module path."""

    def as_uri(self, include_password: bool = False, mask: str = "**", **options: Any) -> str:
        """Return the URL of the broker."""
        text: str = super().as_uri(include_password, mask, **options)
        scheme, separator, rest = text.partition("://")
        if not scheme.startswith("taskyard.transport."):
            return text
        scheme = "sentinel" if "Sentinel" in scheme else "rediss" if self.ssl else "redis"
        if not self.password:
            rest = rest.removeprefix(f":{mask}@")
        return f"{scheme}{separator}{rest}"


class AMQP(CeleryAMQP):
    """Celery's, but a publish gets a connection within its budget, and no chain ends without a broker."""

    _producer_pool: ProducerPool | None

    Connection = Connection

    @property
    def producer_pool(self) -> ProducerPool:
        """Celery's producers, with our pool."""
        if self._producer_pool is None:
            # first the connections: their limit is that of all pools
            limit = self.app.pool.limit
            pool: ProducerPool = producers[self.app.connection_for_write()]
            if pool.limit != limit:
                pool.limit = limit
            self._producer_pool = pool
        return self._producer_pool

    def _retry_publish(self, publish: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Celery's hook around the publish of callbacks and chains.

        Stock Celery marks the task as failed and acknowledges it: the chain ends there, without a trace. Here
        the message is put back, so that the task runs again and its chain goes on: at least once.
        """
        try:
            return super()._retry_publish(publish, *args, **kwargs)
        except ArgumentError as error:
            # the result cannot be an argument of the next step: a failure of this task, like any bad result
            raise EncodeError(str(error)) from error
        except OperationalError as error:
            raise Reject(error, requeue=True) from error
