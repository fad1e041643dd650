"""Sending a reference webhook: what the request carries, and which answers are worth another try."""

from __future__ import annotations

import json
import socket
from datetime import datetime

import httpx
import pytest

from tasks.webhooks import sending
from tasks.webhooks.errors import DeliveryRejectedError, ReceiverUnavailableError
from tasks.webhooks.models import WebhookDelivery
from tasks.webhooks.tasks import deliver
from taskyard.correlation import correlated
from taskyard.retry import retry_after_seconds
from tests.support.webhook_receivers import SECRET, RawServer, answer
from tests.support.webhook_samples import NOW, delivery_to


@pytest.mark.django_db
def test_a_delivery_arrives_signed_with_its_id_and_correlation_id(receiver):
    delivery = delivery_to(receiver.url)

    with correlated("request-17"):
        deliver(delivery.pk)

    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts, delivery.last_status) == ("delivered", 1, 204)
    assert delivery.delivered_at is not None
    assert dict(receiver.received.times_by_id) == {str(delivery.webhook_id): 1}
    assert receiver.received.correlation_ids == {"request-17"}


@pytest.mark.django_db
def test_every_attempt_carries_the_same_id_and_body_and_a_fresh_timestamp(answering):
    url = answering(answer(503))
    delivery = delivery_to(url)
    before = sending.body_of(WebhookDelivery.objects.get())

    for _ in range(2):
        with pytest.raises(ReceiverUnavailableError):
            deliver(delivery.pk)

    assert WebhookDelivery.objects.get().attempts == 2
    assert sending.body_of(WebhookDelivery.objects.get()) == before
    assert json.loads(before)["id"] == str(delivery.webhook_id)


@pytest.mark.django_db
def test_the_request_goes_to_the_path_of_the_endpoint_with_its_host(private_allowed):
    server = RawServer(answer(204))
    deliver(delivery_to(server.url).pk)
    server.close()

    head = server.requests[0].partition(b"\r\n\r\n")[0].decode()
    assert head.startswith("POST /hook?team=7 HTTP/1.1\r\n")
    assert f"Host: {httpx.URL(server.url).netloc.decode()}" in head
    assert SECRET not in server.requests[0].decode()


@pytest.mark.django_db
@pytest.mark.parametrize("status", [408, 425, 429, 500, 503, 599])
def test_a_receiver_in_trouble_is_tried_again_after_the_time_that_it_asks_for(answering, status):
    delivery = delivery_to(answering(answer(status, "Retry-After: 7", body=b"busy")))

    with pytest.raises(ReceiverUnavailableError, match=f"The receiver answered {status}.") as raised:
        deliver(delivery.pk)

    policy = deliver.retry_policy
    decision = policy.decide(raised.value, retries=0, age_seconds=0, now=NOW)
    assert policy.matches(raised.value)
    assert retry_after_seconds(raised.value, now=NOW) == 7
    assert decision.delay_seconds >= 7
    row = WebhookDelivery.objects.get()
    assert (row.state, row.last_status, row.last_error) == (
        "pending",
        status,
        f"The receiver answered {status}: busy",
    )


@pytest.mark.django_db
@pytest.mark.parametrize("status", [400, 401, 404, 422, 301, 307])
def test_a_refusal_is_final(answering, status):
    delivery = delivery_to(answering(answer(status, "Location: http://127.0.0.1:1/")))

    with pytest.raises(DeliveryRejectedError, match=f"The receiver answered {status}") as raised:
        deliver(delivery.pk)

    assert not deliver.retry_policy.matches(raised.value)
    assert WebhookDelivery.objects.get().state == "failed"


@pytest.mark.django_db
def test_nobody_listening_is_tried_again(private_allowed):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]

    with pytest.raises(ReceiverUnavailableError, match="cannot be reached"):
        deliver(delivery_to(f"http://127.0.0.1:{port}/").pk)

    row = WebhookDelivery.objects.get()
    assert (row.state, row.attempts, row.last_status) == ("pending", 1, None)
    assert "cannot be reached" in row.last_error


@pytest.mark.django_db
def test_an_endless_answer_is_cut(answering):
    delivery = delivery_to(answering(answer(200, body=b"x" * 5_000_000)))

    deliver(delivery.pk)

    assert WebhookDelivery.objects.get().state == "delivered"


def test_a_slow_answer_is_cut_by_the_clock():
    response = httpx.Response(200, content=(b"drip" for _ in range(1000)))
    clock = SteppingClock(step_seconds=5)

    excerpt = sending._read_excerpt(response, clock)

    assert excerpt == "drip" * 4


class SteppingClock:
    def __init__(self, step_seconds: float) -> None:
        self.step_seconds, self.seconds = step_seconds, 0.0

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        self.seconds += self.step_seconds
        return self.seconds
