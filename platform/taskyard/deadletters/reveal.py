"""What is encrypted in a dead letter, shown to a person who may see it, with a trace of that."""

from __future__ import annotations

from dataclasses import dataclass

from taskyard.deadletters.contents import Content, message_of, true_content
from taskyard.deadletters.models import DeadLetter, DeadLetterAction
from taskyard.errors import DeadLetterError


@dataclass(frozen=True, slots=True)
class Revealed:
    """What a dead letter keeps encrypted.

    Args:
        content: the true arguments and what follows the task; None where the message cannot be read as a
        call.
        message: the message as it came; "" where a task was run.
    """

    content: Content | None
    message: str


def reveal(letter_id: int, *, actor: str) -> Revealed:
    """Return what is encrypted. The audit is written first: nobody sees it without a trace.

    The caller checks the permission `deadletters.reveal_deadletter`.

    Raises:
        DeadLetterError: there is no such letter, or no key of the settings opens it.
    """
    letter = DeadLetter.objects.filter(pk=letter_id).first()
    if letter is None:
        raise DeadLetterError(f"Dead letter {letter_id} does not exist. It may have been purged.")
    message = message_of(letter)
    try:
        content = true_content(letter)
    except DeadLetterError:
        if not message:
            raise
        content = None
    DeadLetterAction.objects.create(letter=letter, kind=DeadLetterAction.Kind.REVEAL, actor=actor[:150])
    return Revealed(content, message)
