"""Reading of the environment variables that are Django's, not Taskyard's."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from taskyard.errors import SettingsError

# How a development key is recognised, so that it is refused where it matters.
DEVELOPMENT_KEY_PREFIX = "development-only-"
TRUE, FALSE = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off", ""})


def read_flag(environ: Mapping[str, str], name: str, default: bool = False) -> bool:
    """Return a yes-or-no variable.

    Raises:
        SettingsError: the value is neither.
    """
    text = environ.get(name, "1" if default else "0").strip().lower()
    if text in TRUE | FALSE:
        return text in TRUE
    raise SettingsError([f"The environment variable {name} is {text!r}. Use 1 or 0."])


def read_secret_key(environ: Mapping[str, str], *, debug: bool, key_file: Path) -> str:
    """Return DJANGO_SECRET_KEY; in development a key that is made once and kept under var/.

    Raises:
        SettingsError: it is missing in production.
    """
    key = environ.get("DJANGO_SECRET_KEY", "")
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
    try:
        return key_file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        pass
    key = DEVELOPMENT_KEY_PREFIX + secrets.token_urlsafe(48)
    key_file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with key_file.open("x", encoding="utf-8") as file:
            key_file.chmod(0o600)
            file.write(key)
    except FileExistsError:  # another process was first
        return key_file.read_text(encoding="utf-8").strip() or key
    return key


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
