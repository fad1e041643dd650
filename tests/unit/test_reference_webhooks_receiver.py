"""The demo's receiver of webhooks refuses, fails and recognises duplicates; the demo's events."""

from __future__ import annotations

import json
import random

import pytest

from tasks.webhooks.errors import DeliveryRejectedError, ReceiverUnavailableError
from tasks.webhooks.load import create_deliveries, generate_events
from tasks.webhooks.models import WebhookDelivery, WebhookEndpoint
from tasks.webhooks.receiver import WebhookReceiver
from tasks.webhooks.tasks import deliver
from taskyard.retry import retry_after_seconds
from tests.support.webhook_receivers import SECRET
from tests.support.webhook_samples import NOW, delivery_to


@pytest.mark.django_db
def test_a_wrong_secret_is_refused_by_the_receiver_for_good(receiver):
    delivery = delivery_to(receiver.url)
    WebhookEndpoint.objects.update(secret="another")

    with pytest.raises(DeliveryRejectedError, match=r"The receiver answered 401, which no retry changes\."):
        deliver(delivery.pk)

    assert receiver.received.refused == 1
    assert WebhookDelivery.objects.get().state == "failed"


@pytest.mark.django_db
def test_a_dropped_connection_is_tried_again_and_recognised_as_a_duplicate(private_allowed):
    # seed 1: the second number, 0.85, says that the request fails by a dropped connection
    with WebhookReceiver(SECRET, fail_rate=1.0, seed=1) as receiver:
        delivery = delivery_to(receiver.url)
        with pytest.raises(ReceiverUnavailableError, match="cannot be reached"):
            deliver(delivery.pk)
        receiver._fail_rate = 0.0
        deliver(delivery.pk)

    assert WebhookDelivery.objects.get().state == "delivered"
    assert (receiver.received.unique, receiver.received.duplicates) == (1, 1)


@pytest.mark.django_db
def test_the_receiver_asks_for_a_pause_when_it_fails_on_purpose(private_allowed):
    with (
        # seed 4: the second number, 0.10, says that it fails by an answer
        WebhookReceiver(SECRET, fail_rate=1.0, seed=4) as receiver,
        pytest.raises(ReceiverUnavailableError) as raised,
    ):
        deliver(delivery_to(receiver.url).pk)

    assert retry_after_seconds(raised.value, now=NOW) == 1
    assert receiver.received.unique == 0


@pytest.mark.django_db(transaction=True)
def test_a_receiver_without_a_secret_uses_that_of_its_endpoint(private_allowed):
    with WebhookReceiver() as receiver:
        (delivery_id,) = create_deliveries(1, random.Random(1), url=receiver.url)

        deliver(delivery_id)

    assert receiver.received.unique == 1
    assert WebhookEndpoint.objects.get().url == receiver.url


@pytest.mark.django_db(transaction=True)
def test_a_receiver_whose_endpoint_nobody_added_refuses(private_allowed):
    with WebhookReceiver() as receiver, pytest.raises(DeliveryRejectedError):
        deliver(delivery_to(receiver.url + "other").pk)

    assert receiver.received.refused == 1


def test_the_same_seed_gives_the_same_events():
    events = list(generate_events(20, random.Random(3)))

    assert events == list(generate_events(20, random.Random(3)))
    assert len({event for event, _ in events}) > 1
    json.dumps(events)
