"""Reading of the environment variables that are Django's, not Taskyard's."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path

from taskyard.errors import SettingsError

# How a development key is recognised, so that it is refused where it matters.
DEVELOPMENT_KEY_PREFIX = "development-only-"
TRUE, FALSE = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})


def read_flag(environ: Mapping[str, str], name: str, default: bool = False) -> bool:
    """Return a yes-or-no variable; an empty one counts as unset.

    Raises:
        SettingsError: the value is neither.
    """
    text = environ.get(name, "").strip().lower()
    if not text:
        return default
    if text in TRUE | FALSE:
        return text in TRUE
    raise SettingsError([f"The environment variable {name} is {text!r}. Use 1 or 0."])


def read_secret_key(environ: Mapping[str, str], *, debug: bool, key_file: Path) -> str:
    """Return DJANGO_SECRET_KEY; in development a key that is made once and kept under var/.

    Raises:
        SettingsError: it is missing in production.
    """
    key = environ.get("DJANGO_SECRET_KEY", "").strip()
    if key:
        return key
    if not debug:
        raise SettingsError(
            [
                "The environment variable DJANGO_SECRET_KEY is missing. Set it to a long random text, "
                "or set DJANGO_DEBUG=1 for development."
            ]
        )
    return _development_key(key_file)


def _development_key(key_file: Path) -> str:
    if not key_file.exists():
        _write_once(key_file, DEVELOPMENT_KEY_PREFIX + secrets.token_urlsafe(48))
    key = key_file.read_text(encoding="utf-8").strip()
    if not key:
        raise SettingsError([f"The file {key_file} is empty. Delete it; the next start makes a new key."])
    return key


def _write_once(file: Path, text: str) -> None:
    """Write a private file, whole or not at all; of several processes at once, the first one counts."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f"{file.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        with contextlib.suppress(FileExistsError):
            os.link(name, file)
    finally:
        Path(name).unlink()


def read_allowed_hosts(environ: Mapping[str, str], *, debug: bool) -> list[str]:
    """Return DJANGO_ALLOWED_HOSTS, comma-separated; this machine only in development.

    Raises:
        SettingsError: it is missing in production.
    """
    hosts = [host.strip() for host in environ.get("DJANGO_ALLOWED_HOSTS", "").split(",") if host.strip()]
    if hosts or debug:
        return hosts or ["127.0.0.1", "localhost", "[::1]", "testserver"]
    raise SettingsError(
        [
            "The environment variable DJANGO_ALLOWED_HOSTS is missing. "
            "Set it to the site's host names, comma-separated."
        ]
    )
