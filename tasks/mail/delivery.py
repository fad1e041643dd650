"""Handing a mail to the mail server, without an address in any error text."""

from __future__ import annotations

import smtplib

from django.core.mail import EmailMessage


class AddressRefused(Exception):
    """The mail server refuses the address for good (SMTP 5xx)."""


class MailNotTaken(Exception):
    """The mail server does not take the mail now (SMTP 4xx); later it may."""


def deliver(message: EmailMessage) -> None:
    """Send the message.

    Raises:
        AddressRefused: trying again is useless.
        MailNotTaken: trying again may work, for instance with a server that greylists.
        OSError: the mail server does not answer; smtplib's errors are among these.
    """
    try:
        message.send()
    except smtplib.SMTPRecipientsRefused as refused:
        codes = sorted({code for code, _ in refused.recipients.values()})
        kind = AddressRefused if all(code >= 500 for code in codes) else MailNotTaken
        # smtplib's error names the address, and errors end up in logs and in the dead letter store.
        raise kind(f"The mail server refused the address with SMTP {', '.join(map(str, codes))}.") from None
