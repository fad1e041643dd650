"""The reference webhook is signed, and its secret is shown to nobody."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse

from tasks.webhooks import signing
from tasks.webhooks.errors import SignatureError
from tasks.webhooks.models import WebhookEndpoint
from tasks.webhooks.tasks import deliver
from tests.support.webhook_receivers import SECRET
from tests.support.webhook_samples import NOW, delivery_to


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
