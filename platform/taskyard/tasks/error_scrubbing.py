"""An exception without the marked values that it shows, and otherwise the same: type, traceback, causes.

It is masked in place, so that whoever asks for its type decides as before. Where that is not possible,
because its text is made of what cannot be reached (errors of pydantic, of C extensions), a `RedactedError`
stands in.
"""

from __future__ import annotations

from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any

from celery.exceptions import Ignore, Reject, Retry

from taskyard.errors import RedactedError
from taskyard.marked_values import Scrubber
from taskyard.outcomes import Cancel, Snooze
from taskyard.tasks.traceback import error_text

# Of a chain of causes, what is kept; a person reads the last few.
MAX_DEPTH = 100
UNSHOWN = "(its text is not shown)"
_CONTAINERS = (dict, list, tuple, set, frozenset)
# What a retry publishes, or runs again: the true call.
_NOT_SHOWN = ("sig",)


def scrubbed_error(error: BaseException, scrubber: Scrubber) -> BaseException:
    """Return the error with marked values masked in everything that shows them.

    That is its text, its arguments, attributes and notes; those of its causes and of the exceptions in a
    group, at any depth. Attributes that are objects of other kinds stay, unless the error's text shows them.

    Never raises: an error that resists is replaced.
    """
    try:
        return _Walk(scrubber).clean(error, 0)
    except Exception:
        # a property of the error that raises, no memory, or the soft time limit just now
        return _without_text(error)


class _Walk:
    """One error and all that hang on it; they may hang on each other."""

    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber = scrubber
        self._seen: dict[int, BaseException] = {}

    def clean(self, error: BaseException, depth: int) -> BaseException:
        if id(error) in self._seen:
            return self._seen[id(error)]
        self._seen[id(error)] = error
        self._clean_causes(error, depth)
        self._clean_state(error, depth)
        self._clean_fields(error, depth)
        _set(error, "args", self._plain(error.args, depth))
        cleaned = error
        if isinstance(error, BaseExceptionGroup):
            cleaned = self._group(error, depth)
        if self._is_dirty(cleaned):
            cleaned = _stand_in(cleaned, self._scrubber.text(error_text(cleaned)))
        self._seen[id(error)] = cleaned
        return cleaned

    def _clean_causes(self, error: BaseException, depth: int) -> None:
        for name in ("__cause__", "__context__"):
            other = getattr(error, name)
            if other is not None:
                _set(error, name, self.clean(other, depth + 1) if depth < MAX_DEPTH else None)

    def _clean_state(self, error: BaseException, depth: int) -> None:
        state = vars(error)
        for name, value in list(state.items()):
            # a number that is not shown may be what the caller waits, or asks for
            if name not in _NOT_SHOWN and not isinstance(value, (int, float)):
                state[name] = self._plain(value, depth, is_shown=False)

    def _clean_fields(self, error: BaseException, depth: int) -> None:
        """Mask what an exception of C, or one with slots, keeps beside its attributes, as a file name."""
        for kind in type(error).__mro__:
            for name, field in vars(kind).items():
                if name.startswith("__") or name == "args":
                    continue
                if not isinstance(field, (MemberDescriptorType, GetSetDescriptorType)):
                    continue
                value = getattr(error, name, None)
                cleaned = value if isinstance(value, int) else self._plain(value, depth, is_shown=False)
                if cleaned is not value:
                    _set(error, name, cleaned)

    def _plain(self, value: Any, depth: int, *, is_shown: bool = True) -> Any:
        """Return the value masked; itself if there is nothing to mask.

        Args:
            is_shown: whether its text is a part of the error's text whatever kind it is.
        """
        if isinstance(value, BaseException):
            return self.clean(value, depth + 1) if depth < MAX_DEPTH else _without_text(value)
        if type(value) in _CONTAINERS and depth < MAX_DEPTH:
            return self._container(value, depth, is_shown=is_shown)
        if value is None or isinstance(value, (str, bytes, int, float)) or type(value) in _CONTAINERS:
            return self._scrubber.value(value)
        return self._object(value) if is_shown else value

    def _container(self, value: Any, depth: int, *, is_shown: bool) -> Any:
        if isinstance(value, dict):
            pairs = [
                (self._plain(key, depth + 1), self._plain(item, depth + 1, is_shown=is_shown))
                for key, item in value.items()
            ]
            is_same = all(
                key is k and item is v for (key, item), (k, v) in zip(value.items(), pairs, strict=True)
            )
            return value if is_same else dict(pairs)
        items = [self._plain(item, depth + 1, is_shown=is_shown) for item in value]
        is_same = all(one is other for one, other in zip(value, items, strict=True))
        return value if is_same else type(value)(items)

    def _object(self, value: Any) -> Any:
        text = error_text(value)
        is_dirty = self._scrubber.finds(text) or self._scrubber.finds(_repr(value))
        return self._scrubber.text(text) if is_dirty else value

    def _group(self, group: BaseExceptionGroup[Any], depth: int) -> BaseException:
        """Return the group with clean members and a clean message, neither of which can be set."""
        members = [self.clean(member, depth + 1) for member in group.exceptions]
        message = self._scrubber.text(group.message)
        is_same = all(one is other for one, other in zip(group.exceptions, members, strict=True))
        if message == group.message and is_same:
            return group
        made: BaseExceptionGroup[Any] = BaseExceptionGroup(message, members)
        if type(group) not in (BaseExceptionGroup, ExceptionGroup):
            made = _of_type(type(group), message, members) or made
        _copy_surroundings(group, made)
        return made

    def _is_dirty(self, error: BaseException) -> bool:
        return self._scrubber.finds(error_text(error)) or self._scrubber.finds(_repr(error))


def _stand_in(error: BaseException, text: str) -> BaseException:
    """Return what says the same without being it; what decides about the message is of the same kind."""
    made = _decision(error, text) or RedactedError(text, original=error)
    _copy_surroundings(error, made)
    return made


def _decision(error: BaseException, text: str) -> BaseException | None:
    """Return the outcome or exit of the same kind with this text; None for an error."""
    match error:
        case Retry():
            return Retry(text, when=error.when, is_eager=error.is_eager, sig=error.sig)
        case Reject():
            return Reject(text, requeue=error.requeue)
        case Ignore():
            return Ignore(text)
        case Snooze():
            made = Snooze(error.delay_seconds)
            made.reason = text
            return made
        case Cancel():
            return Cancel(text)
        case Exception():
            return None
    return SystemExit(1)


def _without_text(error: BaseException) -> BaseException:
    for name in ("__cause__", "__context__"):
        _set(error, name, None)
    made = _stand_in(error, UNSHOWN)
    made.__dict__.pop("__notes__", None)
    return made


def _copy_surroundings(error: BaseException, made: BaseException) -> None:
    made.__traceback__ = error.__traceback__
    made.__cause__, made.__context__ = error.__cause__, error.__context__
    made.__suppress_context__ = error.__suppress_context__
    notes = getattr(error, "__notes__", None)
    if notes:
        made.__notes__ = notes


def _of_type(kind: type[Any], message: str, members: list[BaseException]) -> Any:
    try:
        return kind(message, members)
    except Exception:
        return None


def _set(error: BaseException, name: str, value: Any) -> None:
    try:
        # an exception may refuse to be changed by others (a frozen dataclass)
        BaseException.__setattr__(error, name, value)
    except (AttributeError, TypeError):
        # read-only: if the text shows it, the error is replaced
        return


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:
        return ""
