"""Every error that Taskyard raises, in one tree. The branches are named for what the caller does next.

    TaskyardError
    ├── ConfigurationError        fix the settings or the declaration, then start again
    │   ├── SettingsError         one or more settings are wrong (all of them listed)
    │   ├── TaskDefinitionError   a task is declared wrongly
    │   ├── UnknownQueueError     a queue is named that does not exist
    │   └── UnsealingError        what was encrypted cannot be decrypted with the keys of the settings
    ├── ArgumentError             fix the call: nothing was published
    │   ├── ArgumentNotJSONError  an argument is not JSON-native
    │   └── ArgumentTooLargeError the arguments are larger than the limit
    ├── PublishError              the broker did not take the message (also a kombu OperationalError)
    │   ├── PublishTimeoutError   ... within the publish budget
    │   └── BulkPublishError      ... for a part of a bulk call; says which part
    ├── BrokerUnavailableError    the broker does not answer a question
    ├── StateUnavailableError     the state store (claims, leases) does not answer
    ├── RunError                  the run has failed, for a reason that the kit has found
    │   ├── OutOfMemoryError      a task raised MemoryError for the last time
    │   ├── AbnormalEndError      a task's code raised something that is no Exception
    │   ├── TimedOutError         a task swallowed its soft time limit and came to an end all the same
    │   ├── ClaimLostError        the claim or lease of the run belongs to another one by now
    │   └── RedactedError         stands in for an error whose text shows a marked argument
    ├── DeadLetterError           a dead letter cannot be replayed or discarded as asked
    │   ├── DeadLetterNotOpenError      ... because it has been already, or is just being
    │   └── DeadLetterNotPublishedError ... because the broker did not take its message; ask again later
    │       └── DeadLetterUnconfirmedError  ... or its answer was lost: the message may have arrived
    └── LaunchError               a part of the platform did not start

Outcomes of a run that are not errors (retry later, snooze, cancel) are in `taskyard.outcomes`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from celery.exceptions import SoftTimeLimitExceeded
from django.core.exceptions import ImproperlyConfigured
from kombu.exceptions import OperationalError


class TaskyardError(Exception):
    """Root of every error that Taskyard raises."""


class ConfigurationError(TaskyardError, ImproperlyConfigured):
    """Something that is declared before the start is wrong."""


class SettingsError(ConfigurationError):
    """One or more settings are wrong.

    Args:
        problems: one sentence each, saying which setting, which value, and what to do.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        heading = "1 setting is wrong" if count == 1 else f"{count} settings are wrong"
        super().__init__("\n".join([f"{heading}:", *(f"  - {problem}" for problem in self.problems)]))


class TaskDefinitionError(ConfigurationError):
    """A task is declared wrongly: an unknown option, no name, limits that contradict each other."""


class UnknownQueueError(ConfigurationError):
    """A queue is named that is not in the queue table."""

    def __init__(self, queue: str, known: Iterable[str], *, where: str) -> None:
        self.queue = queue
        names = tuple(known)
        super().__init__(
            f"{where} names the queue {queue!r}, which does not exist.{did_you_mean(queue, names)} "
            f"The queues are: {', '.join(names)}."
        )


class UnsealingError(ConfigurationError):
    """None of the keys opens it: it was encrypted with a key that is no longer among the settings."""


class ArgumentError(TaskyardError, ValueError):
    """The arguments of a call are wrong. Nothing was published."""


class ArgumentNotJSONError(ArgumentError, TypeError):
    """An argument is not JSON-native, so a worker would see something else than the caller sent."""


class ArgumentTooLargeError(ArgumentError):
    """The arguments are larger than the limit. Pass an id and let the task read the data."""


class PublishError(TaskyardError, OperationalError):
    """The broker did not take the message. The task will not run.

    It is a kombu `OperationalError` too, so that code written for Celery catches it.

    Attributes:
        may_have_arrived: the message was sent, but the answer of the broker was lost: the task may run.
    """

    may_have_arrived = False


class PublishTimeoutError(PublishError):
    """The broker did not take the message within the publish budget.

    The message may have arrived if the broker took it and its answer was lost.
    """


class BulkPublishError(PublishError):
    """A bulk call stopped midway.

    Attributes:
        sent: ids of the tasks that the broker has taken.
        unsent: ids of the tasks that the broker has certainly not taken.
        uncertain: ids of the tasks in the batch that was under way when the broker failed: they may
            have arrived. Sending them again is right for an idempotent task.
    """

    def __init__(
        self, reason: str, *, sent: Sequence[str], unsent: Sequence[str], uncertain: Sequence[str]
    ) -> None:
        self.sent, self.unsent, self.uncertain = tuple(sent), tuple(unsent), tuple(uncertain)
        super().__init__(
            f"Bulk publish stopped: {reason}. {len(sent)} sent, {len(unsent)} not sent, "
            f"{len(uncertain)} uncertain; see .sent, .unsent and .uncertain for the task ids."
        )


class BrokerUnavailableError(TaskyardError):
    """The broker does not answer a question about its state."""


class StateUnavailableError(TaskyardError):
    """The state store does not answer; nobody knows whether the operation happened."""


class RunError(TaskyardError):
    """A run has failed, for a reason that the kit has found and not the task's own code."""


class OutOfMemoryError(RunError):
    """A task raised MemoryError, and its retries have ended."""


class AbnormalEndError(RunError):
    """A task's code raised what is no `Exception`: a cancelled coroutine, a panic in C or Rust code."""


class TimedOutError(RunError, SoftTimeLimitExceeded):
    """A task swallowed its soft time limit and came to an end all the same: its result does not count.

    It is Celery's `SoftTimeLimitExceeded`, too, so that a retry policy that names that one means both.
    """

    # SoftTimeLimitExceeded shows its arguments
    __str__ = Exception.__str__


class ClaimLostError(RunError):
    """The claim or lease of this run belongs to another by now; what it does from here on may be doubled."""


class RedactedError(RunError):
    """Stands in for an error whose text shows a marked argument, where that could not be masked in its place.

    Its text is the name of that error and its text, masked.

    Attributes:
        type_name: qualified name of the error's type.
        original: the error itself, with everything that it shows; only in the process of the run.
    """

    def __init__(self, text: str, *, original: BaseException | None = None) -> None:
        self.original = original
        kind = type(self if original is None else original)
        self.type_name = f"{kind.__module__}.{kind.__qualname__}"
        super().__init__(text if original is None else f"{kind.__name__}: {text}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args, {"type_name": self.type_name}


class DeadLetterError(TaskyardError):
    """A dead letter cannot be replayed or discarded as asked. Nothing was changed."""


class DeadLetterNotOpenError(DeadLetterError):
    """The dead letter has been replayed or discarded already, or is being replayed now."""


class DeadLetterNotPublishedError(DeadLetterError):
    """The broker did not take the message of a replay. The dead letter is open, and can be replayed again."""


class DeadLetterUnconfirmedError(DeadLetterNotPublishedError):
    """The broker did not confirm the message of a replay, which may have arrived.

    The dead letter is not open: the next replay sends the same call under the same task id.
    """


class LaunchError(TaskyardError):
    """A part of the platform did not start, or something it needs is taken."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the nearest known word, upper or lower case, or an empty string."""
    by_lower_case = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower_case, n=1, cutoff=0.6)
    return f" Did you mean {by_lower_case[close[0]]!r}?" if close else ""
