"""Delivery of webhooks: one attempt, its outcome in the table, and what its failure means."""

from __future__ import annotations

from typing import Any

import structlog
from django.db import DatabaseError
from django.db.models import F

from tasks.webhooks import sending
from tasks.webhooks.destinations import (
    Resolver,
    check_destination,
    is_private_allowed,
    receiver_of,
    resolve,
)
from tasks.webhooks.errors import (
    DeliveryRejectedError,
    ForbiddenDestinationError,
    ReceiverUnavailableError,
)
from tasks.webhooks.models import WebhookDelivery, WebhookEndpoint
from tasks.webhooks.sending import Answer
from tasks.webhooks.signing import verify_signature
from taskyard import Breaker, Cancel, breaker
from taskyard.clock import SYSTEM_CLOCK, Clock
from taskyard.correlation import current_correlation_id

__all__ = ["deliver", "record_exhaustion", "verify_signature"]

log = structlog.stdlib.get_logger(__name__)

GONE = 410
# 408 and 425 say "again, please" too.
RETRYABLE = frozenset({408, 425, 429})
# While a receiver is down its deliveries wait, instead of using up their retries and our processes. A refusal
# is an answer; our own database says nothing about the receiver.
RECEIVER = Breaker(
    "webhooks:{receiver}",
    minimum_calls=10,
    open_seconds=60.0,
    max_open_seconds=900.0,
    counts=(ReceiverUnavailableError,),
    ignores=(ForbiddenDestinationError, DatabaseError),
)


def deliver(delivery_id: int, *, clock: Clock = SYSTEM_CLOCK, resolver: Resolver = resolve) -> None:
    """Make one attempt at a delivery.

    The receiver may get it twice (its answer can be lost, or the worker die before the row is written) and
    recognises that by the `Webhook-Id`.

    Raises:
        ReceiverUnavailableError: not taken this time (429, 5xx, no answer); try again.
        DeliveryRejectedError: refused for good (other 3xx and 4xx).
        ForbiddenDestinationError: the URL leads where webhooks must not go.
        Cancel: the delivery is gone, or its endpoint is inactive or answered 410.
        Snooze: its receiver has been failing; this is no attempt.
    """
    delivery = WebhookDelivery.objects.select_related("endpoint").filter(pk=delivery_id).first()
    if delivery is None:
        raise Cancel(f"webhook delivery {delivery_id} no longer exists")
    if delivery.state == WebhookDelivery.State.DELIVERED:
        log.info("webhook is delivered already", delivery_id=delivery_id)
        return
    if not delivery.endpoint.active:
        _record(delivery, state=WebhookDelivery.State.CANCELLED, last_error="The endpoint is inactive.")
        raise Cancel(f"endpoint {delivery.endpoint_id} is inactive")
    try:
        with breaker(RECEIVER, receiver=receiver_of(delivery.endpoint.url)):
            _record(delivery, attempts=F("attempts") + 1, last_attempt_at=clock.now())
            _settle(delivery, _attempt(delivery, clock, resolver), clock)
    except ForbiddenDestinationError as error:
        _record(delivery, state=WebhookDelivery.State.FAILED, last_error=str(error))
        raise
    except ReceiverUnavailableError as error:
        if error.response is None:
            _record(delivery, last_status=None, last_error=str(error))
        raise


def record_exhaustion(delivery_id: int, reason: str) -> None:
    """Note that the retries of a delivery have ended; a replay of its dead letter may still deliver it."""
    WebhookDelivery.objects.filter(pk=delivery_id, state=WebhookDelivery.State.PENDING).update(
        state=WebhookDelivery.State.FAILED, last_error=reason
    )


def _attempt(delivery: WebhookDelivery, clock: Clock, resolver: Resolver) -> Answer:
    endpoint = delivery.endpoint
    destination = check_destination(endpoint.url, allow_private=is_private_allowed(), resolver=resolver)
    return sending.send(
        delivery,
        destination,
        secret=endpoint.secret,
        correlation_id=current_correlation_id() or str(delivery.webhook_id),
        clock=clock,
    )


def _settle(delivery: WebhookDelivery, answer: Answer, clock: Clock) -> None:
    status, state = answer.status, WebhookDelivery.State
    # What the receiver says is for the table only: it may quote the payload, which no log should hold.
    said = {"last_status": status, "last_error": f"The receiver answered {status}: {answer.excerpt}"}
    if 200 <= status < 300:
        _record(delivery, state=state.DELIVERED, delivered_at=clock.now(), last_status=status, last_error="")
    elif status == GONE:
        _deactivate(delivery.endpoint)
        _record(delivery, state=state.CANCELLED, **said)
        raise Cancel(f"endpoint {delivery.endpoint_id} answered 410 and is now inactive")
    elif status in RETRYABLE or status >= 500:
        _record(delivery, **said)
        raise ReceiverUnavailableError(f"The receiver answered {status}.", answer.response)
    else:
        _record(delivery, state=state.FAILED, **said)
        hint = " Give the endpoint the URL that it redirects to." if 300 <= status < 400 else ""
        raise DeliveryRejectedError(f"The receiver answered {status}, which no retry changes.{hint}")


def _deactivate(endpoint: WebhookEndpoint) -> None:
    WebhookEndpoint.objects.filter(pk=endpoint.pk, active=True).update(
        active=False, deactivated_reason="The receiver answered 410 Gone."
    )
    log.warning("webhook endpoint deactivated", endpoint_id=endpoint.pk)


def _record(delivery: WebhookDelivery, **changes: Any) -> None:
    # A second run of the same message may have delivered it in the meantime; that stays.
    WebhookDelivery.objects.filter(pk=delivery.pk).exclude(state=WebhookDelivery.State.DELIVERED).update(
        **changes
    )
