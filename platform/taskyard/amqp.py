"""How a run that has succeeded publishes what comes next: its callbacks, and the next step of its chain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery.app.amqp import AMQP as CeleryAMQP
from celery.exceptions import Reject
from kombu.exceptions import EncodeError, OperationalError

from taskyard.errors import ArgumentError


class AMQP(CeleryAMQP):
    """Celery's, but the rest of a chain is never lost with a broker that is away."""

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
