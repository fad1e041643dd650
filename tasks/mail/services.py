"""What the mail tasks do."""

from __future__ import annotations

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser
from django.core.mail import EmailMultiAlternatives
from django.core.mail.backends.base import BaseEmailBackend
from django.template.loader import render_to_string

from tasks.mail.delivery import AddressRefused, deliver
from tasks.mail.models import WelcomeMail
from taskyard.clock import SYSTEM_CLOCK, Clock


class NoRecipient(Exception):
    """There is nobody to send the mail to, now or later."""


def send_welcome(
    user_id: int, *, connection: BaseEmailBackend | None = None, clock: Clock = SYSTEM_CLOCK
) -> bool:
    """Send the welcome mail of a user, unless it is recorded as sent.

    The record is written after the mail has left: written before, a crash in between would lose the mail. So
    a crash between the two, or two deliveries of the task at the same moment, send it twice. No order of the
    two steps avoids both, because the mail server takes no part in our transaction.

    Args:
        user_id: who is welcomed.
        connection: the mail backend; that of the Django settings when None.

    Returns:
        whether this call sent the mail.

    Raises:
        NoRecipient: the user is gone or inactive, or has no address that a server accepts.
        MailNotTaken, OSError: the mail server did not take the mail; later it may.
    """
    if WelcomeMail.objects.filter(user_id=user_id).exists():
        return False
    user = get_user_model().objects.filter(pk=user_id, is_active=True).first()
    if user is None or not user.email:
        raise NoRecipient(f"User {user_id} is gone, inactive or without an address.")
    try:
        deliver(welcome_message(user, connection=connection))
    except AddressRefused as refused:
        raise NoRecipient(f"User {user_id} cannot be reached. {refused}") from refused
    WelcomeMail.objects.get_or_create(user_id=user_id, defaults={"sent_at": clock.now()})
    return True


def welcome_message(
    user: AbstractUser, *, connection: BaseEmailBackend | None = None
) -> EmailMultiAlternatives:
    """Return the mail as text, with an HTML alternative."""
    context = {"name": user.get_short_name() or user.get_username()}
    message = EmailMultiAlternatives(
        subject="Welcome",
        body=render_to_string("mail/welcome.txt", context),
        to=[user.email],
        connection=connection,
    )
    message.attach_alternative(render_to_string("mail/welcome.html", context), "text/html")
    return message
