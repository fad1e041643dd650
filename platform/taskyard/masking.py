"""Masking of credentials in anything that is shown: URLs, failover lists, query strings, option names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MASK = "******"
_SECRET_NAME = re.compile(
    r"pass(word|wd|phrase)?|secret|token|api_?key|private|credential|auth|signature|dsn", re.I
)
# scheme://user:password@host; the password ends at the last '@' before the path
_USERINFO = re.compile(r"(?P<scheme>[a-z][a-z0-9+.\-]*://)(?P<user>[^:/@\s;]*):(?P<password>[^/\s;]*)@", re.I)
_QUERY = re.compile(r"(?P<lead>[?&;])(?P<name>[^=&;\s]+)=(?P<value>[^&;\s]*)")


def is_secret_name(name: str) -> bool:
    """Return whether a setting or parameter of this name holds a secret."""
    return bool(_SECRET_NAME.search(name))


def mask_url(text: str) -> str:
    """Return the text with every password in its URLs masked, in failover lists and query strings too."""
    masked = _USERINFO.sub(lambda m: f"{m['scheme']}{m['user']}:{MASK}@", text)
    return _QUERY.sub(
        lambda m: f"{m['lead']}{m['name']}={MASK}" if is_secret_name(m["name"]) and m["value"] else m[0],
        masked,
    )


def mask(value: Any, name: str = "") -> Any:
    """Return a copy of a configuration value that is safe to show.

    Args:
        value: any nesting of mappings, sequences and scalars.
        name: the key under which the value stands; a secret's name masks the whole value.
    """
    if isinstance(value, Mapping):
        return {key: mask(item, str(key)) for key, item in value.items()}
    if name and is_secret_name(name) and value not in (None, "", False, True):
        return MASK
    if isinstance(value, str):
        return mask_url(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return [mask(item) for item in value]
    return value
