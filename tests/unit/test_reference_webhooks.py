"""The reference webhook: signed, retried by what the receiver answers, never sent into our own network."""

from __future__ import annotations

import json
import logging
import random
import socket
import threading
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse

from tasks.webhooks import sending, services, signing
from tasks.webhooks.destinations import check_destination, resolve
from tasks.webhooks.errors import (
    DeliveryRejectedError,
    ForbiddenDestinationError,
    ReceiverUnavailableError,
    SignatureError,
)
from tasks.webhooks.events import notify
from tasks.webhooks.load import create_deliveries, generate_events
from tasks.webhooks.models import WebhookDelivery, WebhookEndpoint
from tasks.webhooks.receiver import WebhookReceiver
from tasks.webhooks.tasks import deliver
from taskyard import Cancel
from taskyard.correlation import correlated
from taskyard.retry import retry_after_seconds

SECRET = "a secret of the tests"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def private_allowed(settings):
    settings.WEBHOOKS_ALLOW_PRIVATE = True


@pytest.fixture
def receiver(private_allowed):
    with WebhookReceiver(SECRET) as running:
        yield running


@pytest.fixture
def answering(private_allowed):
    """A receiver that answers every request with the given bytes, and the endpoint's URL."""
    servers = []

    def start(answer: bytes) -> str:
        server = RawServer(answer)
        servers.append(server)
        return server.url

    yield start
    for server in servers:
        server.close()


class RawServer:
    """Reads one request, sends fixed bytes, closes; for each connection."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.requests: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/hook?team=7"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self.requests.append(connection.recv(65536))
                try:
                    connection.sendall(self.answer)
                except OSError:  # the sender has read enough
                    continue

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)


def answer(status: int, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"HTTP/1.1 {status} Text", f"Content-Length: {len(body)}", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def delivery_to(url: str, **fields) -> WebhookDelivery:
    endpoint = WebhookEndpoint.objects.create(url=url, secret=SECRET)
    return WebhookDelivery.objects.create(
        endpoint=endpoint, event="order.confirmed", payload={"total": "12.50 €"}, **fields
    )


# The signature


def signed_headers(body: bytes, *, secret: str = SECRET, at: datetime = NOW) -> dict[str, str]:
    timestamp = int(at.timestamp())
    return {
        "Webhook-Timestamp": str(timestamp),
        "Webhook-Signature": signing.sign(secret, timestamp=timestamp, body=body),
    }


def test_a_genuine_webhook_is_accepted():
    body = b'{"total": 1}'

    signing.verify_signature(SECRET, signed_headers(body), body, now=NOW + timedelta(seconds=300))


def test_the_signature_is_hmac_sha256_over_timestamp_dot_body():
    # printf '1700000000.{}' | openssl dgst -sha256 -hmac key
    expected = "v1=9d713ed406bb7076d4123f0dc2c39d2df5c654ed4b0cd56b52c8b4c940bd63ae"

    assert signing.sign("key", timestamp=1_700_000_000, body=b"{}") == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"body": b'{"total": 2}'}, "does not match"),
        ({"Webhook-Timestamp": str(int(NOW.timestamp()) + 1)}, "does not match"),
        ({"Webhook-Signature": "v1=" + "0" * 64}, "does not match"),
        ({"Webhook-Signature": "\udcff"}, "does not match"),
        ({"Webhook-Timestamp": "now"}, "not a number of seconds"),
        ({"Webhook-Timestamp": "١٢"}, "not a number of seconds"),
        ({"Webhook-Signature": None}, "lacks Webhook-Timestamp or Webhook-Signature"),
        ({"now": NOW + timedelta(seconds=301)}, "301 s off, more than 300 s"),
        ({"now": NOW - timedelta(seconds=301)}, "301 s off, more than 300 s"),
        ({"secret": "another"}, "does not match"),
    ],
)
def test_a_webhook_that_was_changed_or_is_old_is_refused(change, message):
    body = b'{"total": 1}'
    headers = signed_headers(body)
    headers |= {name: value for name, value in change.items() if name.startswith("Webhook-")}
    headers = {name: value for name, value in headers.items() if value is not None}

    with pytest.raises(SignatureError, match=message):
        signing.verify_signature(
            change.get("secret", SECRET), headers, change.get("body", body), now=change.get("now", NOW)
        )


# Delivery


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
def test_a_wrong_secret_is_refused_by_the_receiver_for_good(receiver):
    delivery = delivery_to(receiver.url)
    WebhookEndpoint.objects.update(secret="another")

    with pytest.raises(DeliveryRejectedError, match=r"The receiver answered 401, which no retry changes\."):
        deliver(delivery.pk)

    assert receiver.received.refused == 1
    assert WebhookDelivery.objects.get().state == "failed"


@pytest.mark.django_db
def test_what_is_delivered_is_not_sent_again(receiver):
    delivery = delivery_to(receiver.url, state=WebhookDelivery.State.DELIVERED)

    deliver(delivery.pk)

    assert receiver.received.unique == 0


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
def test_gone_deactivates_the_endpoint_and_cancels(answering):
    delivery = delivery_to(answering(answer(410)))
    second = WebhookDelivery.objects.create(endpoint=delivery.endpoint, event="x", payload={})

    with pytest.raises(Cancel, match="answered 410 and is now inactive"):
        deliver(delivery.pk)
    with pytest.raises(Cancel, match="is inactive"):
        deliver(second.pk)

    endpoint = WebhookEndpoint.objects.get()
    assert (endpoint.active, endpoint.deactivated_reason) == (False, "The receiver answered 410 Gone.")
    assert set(WebhookDelivery.objects.values_list("state", flat=True)) == {"cancelled"}
    second.refresh_from_db()
    assert second.attempts == 0


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


@pytest.mark.django_db
def test_a_deleted_delivery_is_cancelled():
    with pytest.raises(Cancel, match="webhook delivery 99 no longer exists"):
        deliver(99)


@pytest.mark.django_db
def test_ended_retries_are_noted_but_never_over_a_success():
    failed = delivery_to("http://127.0.0.1:1/")
    delivered = WebhookDelivery.objects.create(
        endpoint=failed.endpoint, event="x", payload={}, state=WebhookDelivery.State.DELIVERED
    )

    deliver.on_failure(ReceiverUnavailableError("no"), "id", [failed.pk], {}, None)
    deliver.on_failure(ReceiverUnavailableError("no"), "id", [], {"delivery_id": delivered.pk}, None)

    failed.refresh_from_db()
    delivered.refresh_from_db()
    assert (failed.state, failed.last_error, delivered.state) == ("failed", "no", "delivered")


@pytest.mark.django_db
def test_an_event_goes_to_the_active_endpoints_after_the_commit(django_capture_on_commit_callbacks):
    active = WebhookEndpoint.objects.create(url="https://a.example/")
    WebhookEndpoint.objects.create(url="https://b.example/", active=False)

    with django_capture_on_commit_callbacks() as callbacks:
        (delivery,) = notify("order.confirmed", {"id": 7})

    assert (delivery.endpoint, delivery.event, delivery.payload) == (active, "order.confirmed", {"id": 7})
    assert [callback.args for callback in callbacks] == [([delivery.pk],)]


# Where webhooks may go


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "192.168.0.1",
        "172.16.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "fe80::1%eth0",
        "fd00::1",
        "fec0::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "::7f00:1",
    ],
)
def test_addresses_of_our_own_network_are_refused(address):
    with pytest.raises(ForbiddenDestinationError, match="not a public address"):
        check_destination(
            "https://hooks.example/", allow_private=False, resolver=lambda host, port: [address]
        )


def test_one_private_address_among_public_ones_is_enough_to_refuse():
    with pytest.raises(ForbiddenDestinationError):
        check_destination(
            "https://hooks.example/", allow_private=False, resolver=lambda host, port: ["8.8.8.8", "10.0.0.1"]
        )


@pytest.mark.parametrize(
    "url", ["http://2130706433/", "http://0x7f.1/", "http://127.1/", "http://localhost:6379/"]
)
def test_other_spellings_of_loopback_are_refused(url):
    with pytest.raises(ForbiddenDestinationError):
        check_destination(url, allow_private=False)


@pytest.mark.parametrize("address", ["169.254.169.254", "fe80::1", "224.0.0.1", "0.0.0.0", "100.64.0.1"])
def test_the_metadata_service_is_refused_also_where_private_addresses_are_allowed(address):
    with pytest.raises(ForbiddenDestinationError):
        check_destination("http://hooks.example/", allow_private=True, resolver=lambda host, port: [address])


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.0.0.1", "fd00::1", "8.8.8.8"])
def test_private_addresses_can_be_allowed(address):
    destination = check_destination(
        "http://h.example:81/x", allow_private=True, resolver=lambda host, port: [address]
    )

    assert destination.addresses == (address,)


@pytest.mark.parametrize("address", ["8.8.8.8", "2001:4860:4860::8888", "64:ff9b::808:808"])
def test_public_addresses_are_allowed_also_through_nat64(address):
    check_destination("http://h.example/", allow_private=False, resolver=lambda host, port: [address])


@pytest.mark.parametrize(
    "url", ["ftp://example.com/", "file:///etc/passwd", "//example.com/", "http://", "gopher://x"]
)
def test_other_schemes_are_refused(url):
    with pytest.raises(ForbiddenDestinationError, match="Use http:// or https://"):
        check_destination(url, allow_private=True)


def test_credentials_in_the_url_are_refused_and_not_repeated():
    with pytest.raises(ForbiddenDestinationError) as raised:
        check_destination("https://me:hunter2@example.com/", allow_private=True)

    assert "hunter2" not in str(raised.value)


def test_the_checked_address_is_connected_to_under_the_name_of_the_host():
    asked = []

    def resolver(host: str, port: int) -> list[str]:
        asked.append((host, port))
        return ["8.8.8.8", "2001:4860:4860::8888"]

    destination = check_destination("https://exämple.com:8443/x?y=1", allow_private=False, resolver=resolver)

    assert asked == [("xn--exmple-cua.com", 8443)]
    assert [str(url) for url in destination.connect_urls] == [
        "https://8.8.8.8:8443/x?y=1",
        "https://[2001:4860:4860::8888]:8443/x?y=1",
    ]
    assert destination.host_header == "xn--exmple-cua.com:8443"
    assert destination.host_name == "xn--exmple-cua.com"


@pytest.mark.parametrize("host", ["a..b", "a" * 70])
def test_a_name_that_cannot_be_resolved_is_tried_again(host):
    with pytest.raises(ReceiverUnavailableError, match="does not resolve"):
        resolve(host, 80)


@pytest.mark.django_db
def test_the_guard_is_on_unless_the_setting_or_debug_says_otherwise(settings):
    with WebhookReceiver(SECRET) as receiver:
        delivery = delivery_to(receiver.url)
        del settings.WEBHOOKS_ALLOW_PRIVATE
        settings.DEBUG = False
        with pytest.raises(ForbiddenDestinationError):
            deliver(delivery.pk)
        assert receiver.received.unique == 0
        assert WebhookDelivery.objects.get().state == "failed"
        settings.DEBUG = True
        deliver(delivery.pk)
        settings.WEBHOOKS_ALLOW_PRIVATE = False
        WebhookDelivery.objects.update(state="pending")
        with pytest.raises(ForbiddenDestinationError):
            deliver(delivery.pk)

    assert receiver.received.unique == 1


@pytest.mark.django_db
def test_a_name_with_several_addresses_is_delivered_to_the_first_that_answers(receiver):
    delivery = delivery_to(receiver.url.replace("127.0.0.1", "hooks.example"))

    services.deliver(delivery.pk, resolver=lambda host, port: ["127.0.0.2", "127.0.0.1"])

    assert WebhookDelivery.objects.get().state == "delivered"


# The secret


@pytest.mark.django_db
def test_the_secret_is_in_no_log_line(receiver, caplog):
    for name in ("", "httpx", "httpcore"):
        caplog.set_level(logging.DEBUG, logger=name)
    delivery = delivery_to(receiver.url)

    deliver(delivery.pk)

    assert caplog.text
    assert SECRET not in caplog.text
    assert SECRET not in repr(delivery.endpoint) + str(delivery.endpoint)


@pytest.mark.django_db
def test_the_admin_masks_the_secret_and_can_replace_it(client):
    client.force_login(get_user_model().objects.create_superuser("root"))
    endpoint = WebhookEndpoint.objects.create(url="https://example.com/", secret=SECRET)
    page = reverse("admin:webhooks_webhookendpoint_change", args=[endpoint.pk])

    shown = client.get(page).content.decode()
    fields = {"url": endpoint.url, "active": "on", "deactivated_reason": "", "new_secret": ""}
    client.post(page, fields)
    kept = WebhookEndpoint.objects.get().secret
    client.post(page, fields | {"new_secret": "replaced"})

    assert SECRET not in shown
    assert "******" in shown
    assert kept == SECRET
    assert WebhookEndpoint.objects.get().secret == "replaced"
    added = reverse("admin:webhooks_webhookendpoint_add")
    assert client.post(added, fields | {"url": "https://example.org/"}).status_code == 302
    assert len(WebhookEndpoint.objects.last().secret) >= 40


# The demo's input and the task


def test_the_same_seed_gives_the_same_events():
    events = list(generate_events(20, random.Random(3)))

    assert events == list(generate_events(20, random.Random(3)))
    assert len({event for event, _ in events}) > 1
    json.dumps(events)


def test_the_task_runs_on_the_high_queue():
    assert deliver.name == "webhooks.deliver"
    assert deliver.queue == "high"
    assert deliver.idempotent == "natural"
