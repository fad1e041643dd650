"""Keys of calls: which of a task's calls are the same work.

A key is declared as one of

    "order_id"              the value of that argument
    "{order_id}-{kind}"     a template over arguments; also "{address[city]}" and "{day:%Y-%m}"
    "*"                     all arguments
    ""                      nothing: all calls of the task are the same
    a function              called with those of the call's arguments that it names

Defaults count as given, and `f(1)` and `f(order_id=1)` are the same call. Equal calls have equal keys, at the
publisher as in the worker. Unequal values have unequal keys, whatever text they are: what separates the
fields of a template is escaped inside of them.
"""

from __future__ import annotations

import datetime
import decimal
import hashlib
import inspect
import string
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from django.utils.functional import Promise
from kombu.utils.json import dumps

from taskyard.errors import ArgumentError, TaskDefinitionError, did_you_mean
from taskyard.sealing import oldest_secret

KeySpec = str | Callable[..., Any]

ALL_ARGUMENTS = "*"
# Of the 255 characters that a stored key may have, the rest is for its kind and the task's name.
MAX_LENGTH = 120
# Of a key that is too long, what a person still sees of it.
SHOWN_LENGTH = 60
STORED_LENGTH = 255
_DIGEST_LENGTH = 32
# Have one text each. The text of another object may hold its address, and be new in each process.
_WITH_TEXT = (str, datetime.date, datetime.time, uuid.UUID, decimal.Decimal, Promise)
_Kind = inspect.Parameter


def call_key(task: Any, spec: KeySpec, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return the key of a call, at most 120 characters.

    A key made from a marked argument (`redact`) is a keyed hash of it, a longer one ends in a hash.

    Args:
        task: the task of an application, not its class.
        spec: as declared; see this module's text.

    Raises:
        ArgumentError: the key is None or empty, which would make unrelated calls the same; or cannot be made.
        TypeError: the task does not take these arguments.
    """
    if spec == "":
        return ""
    values = _values(task.run, args, kwargs)
    try:
        text = _text_of(spec, values)
    except _EmptyPartError:
        raise _without_value(task, repr(_empty_field(spec, values))) from None
    except Exception as error:
        # without its text, which may show a marked argument
        raise ArgumentError(
            f"Task {task.name!r} has no key for this call: {_shown(spec)} failed with "
            f"{type(error).__name__}. Correct the key or the call."
        ) from (None if task.redact else error)
    if text is None:
        raise _without_value(task, _shown(spec))
    if _shows_marked(spec, task):
        return _keyed_hash(text, oldest_secret(task.app.settings))
    return shortened(text, MAX_LENGTH)


def _without_value(task: Any, what: str) -> ArgumentError:
    return ArgumentError(
        f"Task {task.name!r} has no key for this call: {what} gives None or an empty text. "
        "Pass a value: without one, unrelated calls would count as the same."
    )


def stored_key(kind: str, scope: str, key: str) -> str:
    """Return the key under which the state store knows it: `<kind>:<scope>:<key>`, at most 255 characters.

    Args:
        kind: of the claim, for instance "singleton"; operators filter by it.
        scope: the task's name, or what several tasks share.
    """
    return shortened(f"{kind}:{scope}:{key}", STORED_LENGTH)


def shortened(text: str, length: int) -> str:
    """Return the text; where it is too long or not printable, its beginning and a hash of all of it."""
    if len(text) <= length and text.isprintable():
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    beginning = text[: min(SHOWN_LENGTH, length - _DIGEST_LENGTH - 1)]
    return f"{''.join(c if c.isprintable() else '?' for c in beginning)}~{digest}"


def declared_spec(task: Any, option: str) -> Any:
    """Return a declared key as it was given: a function, which as an attribute has become a method."""
    # of its class: the task that `@shared_task` returns is a proxy without attributes of its own
    given = inspect.getattr_static(task if inspect.isclass(task) else task.__class__, option, None)
    return given.__func__ if isinstance(given, staticmethod) else given


def check_key_spec(task: Any, option: str, spec: Any) -> None:
    """Refuse a declared key that no call could have.

    Raises:
        TaskDefinitionError: names the option, its value and what to write instead.
    """
    where = f"Task {task.name!r} has {option}={_shown(spec)}"
    names, takes_any = _declared_names(task)
    if isinstance(spec, str):
        wanted = _names_in(spec, where)
    elif callable(spec):
        wanted = _names_of_function(spec, where)
    else:
        raise TaskDefinitionError(
            f"{where}. Give the name of an argument, a template like '{{order_id}}-{{kind}}', a function, "
            "'*' for all arguments, or '' for one key for all calls."
        )
    for name in wanted:
        if name not in names and not takes_any:
            raise TaskDefinitionError(
                f"{where}, but the task has no argument {name!r}.{did_you_mean(name, names)} "
                f"Its arguments are: {', '.join(names) or 'none'}."
            )


def _values(run: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by name, defaults included, in the order of the declaration."""
    bound = _signature(run).bind(*args, **kwargs)
    bound.apply_defaults()
    values: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if bound.signature.parameters[name].kind is _Kind.VAR_KEYWORD:
            values |= value
        else:
            values[name] = value
    return values


@lru_cache(maxsize=1024)
def _signature(run: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(run)


def _text_of(spec: KeySpec, values: Mapping[str, Any]) -> str | None:
    if not isinstance(spec, str):
        return _part(spec(**_wanted_by(spec, values)))
    if spec == ALL_ARGUMENTS:
        return _plain(dict(values))
    if "{" not in spec:
        return _part(values[spec])
    return _template(spec).vformat(spec, (), values)


def _part(value: Any) -> str | None:
    """Return the text of a value; None if it is no key."""
    if value is None:
        return None
    return (value if isinstance(value, str) else _plain(value)) or None


def _plain(value: Any) -> str:
    """Return one text for values that are equal once they have been through a message."""
    if isinstance(value, (dict, list, tuple, bool, int, float, type(None))):
        # a date, a UUID or a Decimal inside has one form, too
        return dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if isinstance(value, _WITH_TEXT):
        return str(value)
    raise TypeError(f"a {type(value).__name__} is no key")


class _EmptyPartError(ValueError):
    """A field of a template is None or empty."""


class _Template(string.Formatter):
    """Formats values as keys are made of them; None and empty ones are refused.

    Args:
        separators: characters that end a field of this template. Without their escape, "a-b" and "c" would
            have the key of "a" and "b-c", and the second call would be taken for the first.
    """

    def __init__(self, separators: Sequence[str]) -> None:
        self._escapes = {ord(character): _escaped(character) for character in separators}

    def format_field(self, value: Any, format_spec: str) -> str:
        part = str(format(value, format_spec)) if format_spec else _part(value)
        if not part:
            raise _EmptyPartError
        return part.translate(self._escapes)


@lru_cache(maxsize=1024)
def _template(spec: str) -> _Template:
    separators = {between[0] for between in _texts_between_fields(spec)}
    return _Template(sorted(separators | {"%"}) if separators else ())


def _empty_field(spec: Any, values: Mapping[str, Any]) -> str:
    """Return the field of a template that is None or empty: each is tried with its format and conversion."""
    for _, field, format_spec, conversion in string.Formatter().parse(spec):
        if field is None:
            continue
        written = f"!{conversion}" * bool(conversion) + f":{format_spec}" * bool(format_spec)
        try:
            _template(spec).vformat(f"{{{field}{written}}}", (), values)
        except _EmptyPartError:
            return field
    return str(spec)


def _texts_between_fields(spec: str) -> list[str]:
    found: list[str] = []
    between: str | None = None
    for literal, field, _, _ in string.Formatter().parse(spec):
        if between is not None:
            between += literal
        if field is not None:
            found += [] if between is None else [between]
            between = ""
    return found


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


def _wanted_by(function: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    names, takes_any = _parameters(function)
    return dict(values) if takes_any else {name: values[name] for name in names if name in values}


@lru_cache(maxsize=1024)
def _parameters(function: Callable[..., Any]) -> tuple[tuple[str, ...], bool]:
    """Return the names under which a function takes arguments, and whether it takes any other."""
    parameters = inspect.signature(function).parameters.values()
    names = tuple(p.name for p in parameters if p.kind in (_Kind.POSITIONAL_OR_KEYWORD, _Kind.KEYWORD_ONLY))
    return names, any(p.kind is _Kind.VAR_KEYWORD for p in parameters)


@lru_cache(maxsize=1024)
def _fields(template: str) -> tuple[str, ...]:
    """Return the fields of a template as they are written, without format and conversion."""
    return tuple(field for _, field, _, _ in string.Formatter().parse(template) if field is not None)


def _first_name(field: str) -> str:
    return field.partition("[")[0]


def _shows_marked(spec: KeySpec, task: Any) -> bool:
    marked = set(task.redact)
    if not marked:
        return False
    if "*" in marked or spec == ALL_ARGUMENTS:
        return True
    if isinstance(spec, str):
        names = tuple(map(_first_name, _fields(spec))) if "{" in spec else (spec,)
        return not marked.isdisjoint(names)
    names, takes_any = _parameters(spec)
    return takes_any or not marked.isdisjoint(names)


def _keyed_hash(text: str, secret: str) -> str:
    from django.utils.crypto import salted_hmac

    # with a secret: few card numbers exist, so a plain hash of one tells it
    digest = salted_hmac("taskyard.call_keys", text, secret=secret, algorithm="sha256").hexdigest()
    return f"hashed~{digest[:_DIGEST_LENGTH]}"


def _declared_names(task: Any) -> tuple[tuple[str, ...], bool]:
    """Return the argument names of a task class, and whether it takes others."""
    run = inspect.getattr_static(task, "run")
    is_bound = not isinstance(run, staticmethod)
    parameters = list(inspect.signature(task.run).parameters.values())
    if is_bound and inspect.isclass(task):
        # `self`
        parameters = parameters[1:]
    names = tuple(p.name for p in parameters if p.kind is not _Kind.VAR_KEYWORD)
    return names, len(names) < len(parameters)


def _names_in(spec: str, where: str) -> tuple[str, ...]:
    if spec in ("", ALL_ARGUMENTS):
        return ()
    if "{" not in spec and "}" not in spec:
        return (spec,)
    try:
        fields = _fields(spec)
    except ValueError as error:
        raise TaskDefinitionError(f"{where}, which is no template: {error}. Correct its braces.") from None
    if not fields:
        raise TaskDefinitionError(f"{where}, which names no argument. Write '' for one key for all calls.")
    for field in fields:
        if not _first_name(field).isidentifier() or "." in field:
            raise TaskDefinitionError(
                f"{where}, in which {{{field}}} is no argument. Name one, as in '{{order_id}}' or "
                "'{address[city]}'; for more than that, give a function."
            )
    if not all(_texts_between_fields(spec)):
        raise TaskDefinitionError(
            f"{where}, in which nothing separates two fields. Write a character between them, as in "
            "'{order_id}-{kind}': otherwise different values would have the same key."
        )
    return tuple(map(_first_name, fields))


def _names_of_function(function: Callable[..., Any], where: str) -> tuple[str, ...]:
    parameters = inspect.signature(function).parameters.values()
    for parameter in parameters:
        if parameter.kind in (_Kind.POSITIONAL_ONLY, _Kind.VAR_POSITIONAL):
            raise TaskDefinitionError(
                f"{where}, which takes {parameter} by its place. It is called with the task's arguments by "
                "name: name those that it needs."
            )
    return tuple(p.name for p in parameters if p.kind is not _Kind.VAR_KEYWORD and p.default is _Kind.empty)


def _shown(spec: Any) -> str:
    return repr(spec) if isinstance(spec, str) else getattr(spec, "__qualname__", None) or repr(spec)
