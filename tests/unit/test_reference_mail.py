"""The welcome mail: at most once where nothing crashes, dropped after three attempts."""

import random
import smtplib
from datetime import UTC, datetime

import pytest
from django.contrib.auth import get_user_model
from django.core import mail
from django.core.mail.backends.base import BaseEmailBackend

from tasks.mail import services
from tasks.mail.delivery import MailNotTaken
from tasks.mail.load import create_users
from tasks.mail.models import WelcomeMail
from tasks.mail.tasks import send_welcome
from taskyard import Cancel

pytestmark = pytest.mark.django_db
NOW = datetime(2031, 5, 4, 12, 0, tzinfo=UTC)


class FailingBackend(BaseEmailBackend):
    """A mail server that answers with an error."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def send_messages(self, email_messages):
        raise self.error


@pytest.fixture
def user():
    return get_user_model().objects.create_user("alder", "alder@example.com", first_name="Al & Der")


def refusal(*codes):
    return smtplib.SMTPRecipientsRefused({f"{code}@example.com": (code, b"no") for code in codes})


def test_a_welcome_mail_is_sent_and_recorded(user):
    send_welcome(user.pk)

    (message,) = mail.outbox
    assert message.to == ["alder@example.com"]
    assert "Hello Al & Der," in message.body
    html, mimetype = message.alternatives[0]
    assert (mimetype, "Hello Al &amp; Der," in html) == ("text/html", True)
    assert WelcomeMail.objects.get().user == user


def test_a_second_delivery_sends_nothing(user):
    send_welcome(user.pk)
    send_welcome(user.pk)

    assert len(mail.outbox) == 1
    assert WelcomeMail.objects.count() == 1


def test_a_mail_that_did_not_leave_is_not_recorded(user):
    with pytest.raises(ConnectionRefusedError):
        services.send_welcome(user.pk, connection=FailingBackend(ConnectionRefusedError()))

    assert not WelcomeMail.objects.exists()
    assert services.send_welcome(user.pk)


def test_a_crash_between_sending_and_recording_sends_twice_and_never_loses(user):
    class DiesNow:
        def now(self):
            raise SystemExit

    with pytest.raises(SystemExit):
        services.send_welcome(user.pk, clock=DiesNow())
    services.send_welcome(user.pk)

    assert len(mail.outbox) == 2
    assert WelcomeMail.objects.count() == 1


@pytest.mark.parametrize("change", [{"email": ""}, {"is_active": False}])
def test_nobody_to_write_to_cancels_the_task(user, change):
    get_user_model().objects.filter(pk=user.pk).update(**change)

    with pytest.raises(Cancel, match=rf"^User {user.pk} is gone, inactive or without an address\.$"):
        send_welcome(user.pk)

    assert mail.outbox == []


def test_a_user_who_is_gone_cancels_the_task():
    with pytest.raises(Cancel, match=r"^User 4711 is gone"):
        send_welcome(4711)


def test_an_address_that_is_refused_for_good_has_no_recipient_and_shows_no_address(user):
    with pytest.raises(services.NoRecipient) as caught:
        services.send_welcome(user.pk, connection=FailingBackend(refusal(550)))

    assert str(caught.value) == (
        f"User {user.pk} cannot be reached. The mail server refused the address with SMTP 550."
    )


def test_an_address_that_is_refused_for_now_is_tried_again(user):
    with pytest.raises(
        MailNotTaken, match=r"^The mail server refused the address with SMTP 450\.$"
    ) as caught:
        services.send_welcome(user.pk, connection=FailingBackend(refusal(450)))

    decision = send_welcome.retry_policy.decide(caught.value, retries=0, age_seconds=0, now=NOW)
    assert decision.is_retry


def test_three_attempts_then_dropped():
    decide = send_welcome.retry_policy.decide
    answers = [decide(OSError(), retries=retries, age_seconds=0, now=NOW).is_retry for retries in range(3)]

    assert answers == [True, True, False]
    assert (send_welcome.queue, send_welcome.on_exhausted) == ("low", "drop")


def test_invented_users_are_new_each_time_and_named_by_the_seed():
    User = get_user_model()

    first = create_users(25, random.Random(7))
    second = create_users(25, random.Random(7))

    assert len({*first, *second}) == 50
    names = [
        list(User.objects.filter(pk__in=ids).order_by("pk").values_list("first_name"))
        for ids in (first, second)
    ]
    assert names[0] == names[1]
    assert all(user.email.endswith("@example.com") for user in User.objects.filter(pk__in=first))
    assert not User.objects.get(pk=first[0]).has_usable_password()
