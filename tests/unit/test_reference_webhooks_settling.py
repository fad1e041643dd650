"""What becomes of a delivery: created after the commit, sent once, settled for good."""

from __future__ import annotations

import pytest

from tasks.webhooks.errors import ReceiverUnavailableError
from tasks.webhooks.events import notify
from tasks.webhooks.models import WebhookDelivery, WebhookEndpoint
from tasks.webhooks.tasks import deliver
from taskyard import Cancel
from tests.support.webhook_receivers import answer
from tests.support.webhook_samples import delivery_to


@pytest.mark.django_db
def test_an_event_goes_to_the_active_endpoints_after_the_commit(django_capture_on_commit_callbacks):
    active = WebhookEndpoint.objects.create(url="https://a.example/")
    WebhookEndpoint.objects.create(url="https://b.example/", active=False)

    with django_capture_on_commit_callbacks() as callbacks:
        (delivery,) = notify("order.confirmed", {"id": 7})

    assert (delivery.endpoint, delivery.event, delivery.payload) == (active, "order.confirmed", {"id": 7})
    assert [callback.args for callback in callbacks] == [([delivery.pk],)]


@pytest.mark.django_db
def test_what_is_delivered_is_not_sent_again(receiver):
    delivery = delivery_to(receiver.url, state=WebhookDelivery.State.DELIVERED)

    deliver(delivery.pk)

    assert receiver.received.unique == 0


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


def test_the_task_runs_on_the_high_queue():
    assert deliver.name == "webhooks.deliver"
    assert deliver.queue == "high"
    assert deliver.idempotent == "natural"
