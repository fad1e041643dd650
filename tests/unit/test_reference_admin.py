"""The reference models in the admin: found by number and by name, and read-only where a task owns them."""

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse
from django.utils import timezone

from tasks.mail.models import WelcomeMail
from tasks.orders.models import Order, Payment
from tasks.timeline.models import Activity, Timeline

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin_client(client):
    # Without a password: to hash one takes longer than all the rest.
    client.force_login(get_user_model().objects.create(username="root", is_staff=True, is_superuser=True))
    return client


@pytest.fixture
def rows():
    user = get_user_model().objects.create_user("alder", "alder@example.com")
    order = Order.objects.create(
        customer_email=user.email, amount_cents=500, card_token="sandbox-secret-token"
    )
    timeline = Timeline.objects.create(user=user, last_recorded=2, last_applied=1)
    return {
        WelcomeMail: WelcomeMail.objects.create(user=user, sent_at=timezone.now()),
        Order: order,
        Payment: Payment.objects.create(
            order=order, amount_cents=500, currency="EUR", provider_reference="made-up"
        ),
        Timeline: timeline,
        Activity: Activity.objects.create(timeline=timeline, sequence=1, kind="joined"),
    }


def page(model, name, *args):
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{name}", args=args)


@pytest.mark.parametrize("model", [WelcomeMail, Order, Payment, Timeline, Activity])
@pytest.mark.parametrize(("query", "found"), [("alder", 1), ("nobody at all", 0), ("4711", 0)])
def test_the_list_is_searched_by_words_and_by_numbers(admin_client, rows, model, query, found):
    response = admin_client.get(page(model, "changelist"), {"q": query})

    assert response.status_code == 200
    assert response.context["cl"].result_count == found


@pytest.mark.parametrize("model", [Order, Activity])
def test_a_row_is_found_by_its_number(admin_client, rows, model):
    response = admin_client.get(page(model, "changelist"), {"q": str(rows[model].pk)})

    assert response.context["cl"].result_count == 1


@pytest.mark.parametrize("model", [WelcomeMail, Order, Payment, Timeline, Activity])
def test_nothing_is_added_or_changed_by_hand(admin_client, rows, model):
    assert admin_client.get(page(model, "add")).status_code == 403
    response = admin_client.get(page(model, "change", rows[model].pk))
    assert response.status_code == 200
    assert b'name="_save"' not in response.content
    assert admin_client.post(page(model, "change", rows[model].pk), {}).status_code == 403


def test_the_card_token_is_not_shown(admin_client, rows):
    response = admin_client.get(page(Order, "change", rows[Order].pk))

    assert b"alder@example.com" in response.content
    assert b"sandbox-secret-token" not in response.content


def test_a_pending_activity_can_be_corrected_but_not_deleted(admin_client, rows):
    pending = Activity.objects.create(timeline=rows[Timeline], sequence=2, kind="from-the-future")

    corrected = admin_client.post(page(Activity, "change", pending.pk), {"kind": "posted", "subject": "x"})
    deleted = admin_client.post(page(Activity, "delete", pending.pk), {"post": "yes"})

    pending.refresh_from_db()
    assert (corrected.status_code, deleted.status_code) == (302, 403)
    assert (pending.kind, pending.subject, pending.sequence) == ("posted", "x", 2)


def test_timelines_that_wait_can_be_filtered(admin_client, rows):
    idle = get_user_model().objects.create_user("birch")
    Timeline.objects.create(user=idle)

    response = admin_client.get(page(Timeline, "changelist"), {"waiting": "1"})

    assert [timeline.user.username for timeline in response.context["cl"].queryset] == ["alder"]
