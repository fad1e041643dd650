"""Masking of credentials in anything that is shown: URLs, failover lists, query strings, option names.

It would rather hide too much than too little: a password with a raw '/', ';', '?', '#' or '@' in it makes a
URL wrong, and the message about that wrong URL is where it would be shown. So the userinfo of a URL ends at
its last '@', wherever that is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

MASK = "******"
_SECRET_NAME = re.compile(
    r"pass(word|wd|phrase)?|pwd|secret|token|(api|access)[_-]?key|private|credential|auth|signature|dsn|encryption",
    re.I,
)
# One character of a URL. The next URL of a list begins after a ';', ',' or '|', with its scheme.
_CHARACTER = r"(?:(?![;,|][a-z][a-z0-9+.\-]*:/)\S)"
_USERINFO = re.compile(
    rf"(?P<lead>(?:[a-z][a-z0-9+.\-]*)?:/+|(?<![\w/:])//)(?P<userinfo>{_CHARACTER}*)@", re.I
)
# user:password@host without a scheme, as it is pasted by mistake
_BARE_USERINFO = re.compile(rf"(?<![\w/:*])(?P<user>[\w.+%\-]*):(?!/){_CHARACTER}+@", re.I)
_USER = re.compile(r"[\w.+%\-]*:")
_PARAMETER = re.compile(
    rf"(?P<lead>^|[?&;,\s])(?P<name>[\w.%\-]+)=(?P<value>'(?:[^'\\]|\\.)*'|(?:(?!&){_CHARACTER})*)", re.I
)


def is_secret_name(name: str) -> bool:
    """Return whether a setting or parameter of this name holds a secret."""
    return bool(_SECRET_NAME.search(name))


def mask_url(text: str) -> str:
    """Return the text with every password in its URLs masked, in failover lists and query strings too."""
    # A password may look like a parameter, and a parameter's value like userinfo: both are found in the text
    # as it came, and what overlaps is masked as one.
    spans = sorted([*_userinfo_spans(text), *_parameter_spans(text)])
    shown: list[str] = []
    at = 0
    for start, end in spans:
        if start > at or not shown:
            shown += [text[at:start], MASK]
        at = max(at, end)
    return "".join([*shown, text[at:]])


def _userinfo_spans(text: str) -> Iterator[tuple[int, int]]:
    if "@" not in text:
        return
    for match in _USERINFO.finditer(text):
        # Without a colon it is more often a token, or a password that lacks its colon, than a user name.
        user = _USER.match(match["userinfo"])
        yield match.start("userinfo") + (user.end() if user else 0), match.end("userinfo")
    for match in _BARE_USERINFO.finditer(text):
        yield match.end("user") + 1, match.end() - 1


def _parameter_spans(text: str) -> Iterator[tuple[int, int]]:
    for match in _PARAMETER.finditer(text):
        if match["value"] and is_secret_name(match["name"]):
            yield match.span("value")


def mask(value: Any, name: str = "") -> Any:
    """Return a copy of a configuration value that is safe to show.

    Args:
        value: any nesting of mappings, sequences and scalars.
        name: the key under which the value stands; a secret's name masks the whole value.
    """
    if name and is_secret_name(name) and not _is_empty(value):
        return MASK
    if isinstance(value, Mapping):
        return {
            mask_url(key) if isinstance(key, str) else key: mask(item, str(key))
            for key, item in value.items()
        }
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    if isinstance(value, str):
        return mask_url(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return [mask(item) for item in value]
    return value


def _is_empty(value: Any) -> bool:
    """Whether a secret's name says only that there is none, or that something is on or off."""
    return (
        value is None
        or isinstance(value, bool)
        or (isinstance(value, (str, bytes, list, tuple, dict)) and not value)
    )
