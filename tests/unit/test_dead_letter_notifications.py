"""The e-mail to ADMINS: one a fault and quarter of an hour, with the count, without any argument."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest
from django.core import mail

from taskyard.deadletters.models import DeadLetter
from taskyard.deadletters.notifications import MAIL_TASK, notify_admins, send_mail_to_admins
from taskyard.signals import dead_letter_recorded
from tests.support.letters import CARD, SECRET, TASK, letter, letters

pytestmark = pytest.mark.usefixtures("letter_app")


@pytest.fixture(autouse=True)
def admins(settings):
    settings.ADMINS = [("Ann", "ann@example.org")]
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"


@pytest.fixture
def connected():
    dead_letter_recorded.connect(notify_admins, dispatch_uid="mail")
    yield
    dead_letter_recorded.disconnect(dispatch_uid="mail")


@pytest.fixture
def asked(take_messages):
    """Return the calls of the mail task that wait."""
    return lambda: [message.payload[0] for message in take_messages("low")]


def test_nobody_is_told_unless_it_is_connected(asked):
    letter()

    assert asked() == []


def test_a_dead_letter_asks_for_a_mail_which_a_task_sends(connected, asked):
    row = letter()

    assert asked() == [[row.fingerprint, row.pk, 15]]
    assert mail.outbox == []


def test_one_fault_asks_once_in_a_quarter_of_an_hour(connected, asked):
    letters(5)
    letter(task_id="other", error_place="mail.py:1 in send")

    assert len(asked()) == 2


def test_it_asks_again_later(connected, asked, pass_time):
    first = letter()
    DeadLetter.objects.filter(pk=first.pk).update(created_at=first.created_at - timedelta(minutes=16))
    pass_time(16 * 60)
    asked()

    letter(task_id="id-2")

    assert len(asked()) == 1


def test_another_stretch_of_time_can_be_set(asked):
    hourly = partial(notify_admins, minutes=60)
    dead_letter_recorded.connect(hourly, weak=False, dispatch_uid="hourly")
    try:
        row = letter()
    finally:
        dead_letter_recorded.disconnect(dispatch_uid="hourly")

    assert asked() == [[row.fingerprint, row.pk, 60]]


def test_a_mail_that_cannot_be_sent_asks_for_no_mail(connected, asked):
    letter(task_name=MAIL_TASK)

    assert asked() == []


def test_the_mail_says_what_how_many_and_where_to_look():
    *_, row = [letter(SECRET, task_id=f"id-{place}") for place in range(3)]

    send_mail_to_admins(row.pk, 15)

    (message,) = mail.outbox
    assert message.subject.endswith(f"Dead letter: {TASK}, retries exhausted")
    for text in (
        "ConnectionError: refused",
        "billing/charging.py:42 in charge",
        "In the last 15 minutes: 3. Open in all: 3.",
        f"manage.py deadletters show {row.pk}",
        row.fingerprint,
    ):
        assert text in message.body
    assert CARD not in message.body
    assert "args" not in message.body


def test_a_letter_that_is_gone_needs_no_mail():
    send_mail_to_admins(99, 15)

    assert mail.outbox == []
