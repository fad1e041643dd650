"""Where the reference webhook may go: never into our own network."""

from __future__ import annotations

import pytest

from tasks.webhooks import services
from tasks.webhooks.destinations import check_destination, resolve
from tasks.webhooks.errors import ForbiddenDestinationError, ReceiverUnavailableError
from tasks.webhooks.models import WebhookDelivery
from tasks.webhooks.receiver import WebhookReceiver
from tasks.webhooks.tasks import deliver
from tests.support.webhook_receivers import SECRET
from tests.support.webhook_samples import delivery_to


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
