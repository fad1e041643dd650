"""Encryption of what may be stored but not shown: marked arguments in dead letters."""

from __future__ import annotations

import base64
import json
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from taskyard.conf import Settings
from taskyard.errors import UnsealingError

_INFO = b"taskyard dead letter arguments"


def seal(value: Any, settings: Settings) -> str:
    """Return the JSON value encrypted and authenticated, with the newest key."""
    return _box(settings).encrypt(json.dumps(value).encode()).decode()


def unseal(sealed: str, settings: Settings) -> Any:
    """Return the value.

    Raises:
        UnsealingError: no key of the settings opens it.
    """
    try:
        return json.loads(_box(settings).decrypt(sealed.encode()))
    except InvalidToken:
        raise UnsealingError(
            "The stored arguments cannot be decrypted with any key of the settings. Put the key that was in "
            "use when they were stored back at the end of TASKYARD['ENCRYPTION_KEYS'] (or into "
            "SECRET_KEY_FALLBACKS)."
        ) from None


def oldest_secret(settings: Settings) -> str:
    """Return the secret that a new key in front of the others does not change; for hashes that must last."""
    return _secrets(settings)[-1]


def _box(settings: Settings) -> MultiFernet:
    return MultiFernet([Fernet(_key(secret)) for secret in _secrets(settings)])


def _secrets(settings: Settings) -> list[str]:
    if settings.encryption_keys:
        return [key.get_secret_value() for key in settings.encryption_keys]
    from django.conf import settings as django_settings

    return [django_settings.SECRET_KEY, *map(str, django_settings.SECRET_KEY_FALLBACKS)]


def _key(secret: str) -> bytes:
    # any text of the settings makes a key of the length that Fernet wants
    derived = HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=_INFO).derive(secret.encode())
    return base64.urlsafe_b64encode(derived)
