"""A receiver of `dead_letter_recorded` to begin with: an e-mail to ADMINS, one a fault in a quarter of an
hour.

It is not connected by itself. In the `ready` of an app of yours:

    dead_letter_recorded.connect(notify_admins, dispatch_uid="mail")
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.mail import mail_admins

from taskyard.clock import SYSTEM_CLOCK
from taskyard.deadletters.filters import DeadLetterFilter
from taskyard.deadletters.groups import count_letters
from taskyard.deadletters.models import DeadLetter
from taskyard.tasks.publish import published_now

MINUTES = 15
# So that the first mail of an incident says how many there are, and not always one.
DELAY_SECONDS = 10
ERROR_CHARACTERS = 500
# The task that sends the mails. Its own dead letters tell nobody by mail.
MAIL_TASK = "deadletters.mail_admins"


def notify_admins(sender: Any, letter: DeadLetter, minutes: int = MINUTES, **_: Any) -> None:  # noqa: ARG001
    """Have ADMINS told of a dead letter by mail, if its fault has not been told of just now.

    The mail is sent by a task on the queue `low`: a receiver is in the path of the failed task, and must not
    wait for a mail server. It holds no arguments of the task.

    Args:
        minutes: at most one mail of a fault in so many minutes; 1 to 60. For another number than 15, connect
            `functools.partial(notify_admins, minutes=60)` with `weak=False`.

    Raises:
        PublishError: the broker did not take the task; Django logs it.
    """
    from taskyard.deadletters.tasks import mail_to_admins

    if letter.task_name == MAIL_TASK or not _is_first(letter, minutes):
        return
    # whatever becomes of a transaction that the caller has open, the dead letter stays
    with published_now():
        mail_to_admins.apply_async(
            (letter.fingerprint, letter.pk, minutes),
            countdown=DELAY_SECONDS,
            # two that were written at the same moment do not see each other
            unique_for=minutes * 60,
            unique_key="fingerprint",
        )


def send_mail_to_admins(letter_id: int, minutes: int) -> None:
    """Send the mail about the fault of a letter; nothing if the letter is gone."""
    letter = DeadLetter.objects.filter(pk=letter_id).first()
    if letter is None:
        return
    fault = DeadLetterFilter(fingerprint=letter.fingerprint)
    since = SYSTEM_CLOCK.now() - timedelta(minutes=minutes)
    recent = count_letters(DeadLetterFilter(fingerprint=letter.fingerprint, status=None, since=since))
    total = count_letters(fault)
    what = letter.task_name or "a message"
    mail_admins(
        f"Dead letter: {what}, {letter.get_reason_display()}",
        f"{what} will not run again by itself: {letter.get_reason_display()}.\n\n"
        f"{letter.error[:ERROR_CHARACTERS]}\n{letter.error_place}\n\n"
        f"In the last {minutes} minutes: {recent:,}. Open in all: {total:,}.\n"
        f"Queue: {letter.queue}\nCorrelation id: {letter.correlation_id}\n\n"
        f"manage.py deadletters show {letter.pk}\n"
        f"manage.py deadletters list --fingerprint {letter.fingerprint}\n",
    )


def _is_first(letter: DeadLetter, minutes: int) -> bool:
    """Whether this is the first letter of its fault in this stretch of time."""
    length = minutes * 60
    begin = datetime.fromtimestamp(letter.created_at.timestamp() // length * length, UTC)
    earlier = DeadLetter.objects.filter(
        status__in=DeadLetter.Status.values,  # the index begins with it
        fingerprint=letter.fingerprint,
        pk__lt=letter.pk,
        created_at__gte=begin,
    )
    return not earlier.exists()
