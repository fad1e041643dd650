"""Questions to the broker from where no worker's connection is: a site, a command, a pool process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from taskyard.errors import BrokerUnavailableError
from taskyard.masking import mask_url
from taskyard.transport.deadline import deadline

T = TypeVar("T")


def ask_broker(app: Any, question: Callable[[Any, str], T], *, timeout_seconds: float) -> T | None:
    """Return the answer to `question(client, prefix)`, asked over a connection that the application has.

    Args:
        question: is given a client whose keys are not prefixed, and the prefix.

    Returns:
        None where the broker is of a kind that cannot be asked (the one in memory).

    Raises:
        BrokerUnavailableError: it does not answer in time.
    """
    try:
        with deadline(timeout_seconds), app.connection_or_acquire() as connection:
            channel = connection.default_channel
            client = getattr(channel, "plain_client", None)
            return None if client is None else question(client, channel.global_keyprefix)
    except (OperationalError, RedisError, OSError) as error:
        raise BrokerUnavailableError(
            f"The broker {mask_url(app.conf.broker_url or '')} does not answer: "
            f"{mask_url(str(error)).rstrip('.')}. "
            "Look at it with `manage.py taskyard doctor`."
        ) from error
