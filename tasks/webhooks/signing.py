"""Signatures of webhooks: HMAC-SHA256 over `timestamp.body`, made by the sender, checked by the receiver."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime

from tasks.webhooks.errors import SignatureError

ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER = "Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"
TOLERANCE_SECONDS = 300
_VERSION = "v1="


def sign(secret: str, *, timestamp: int, body: bytes) -> str:
    """Return the value of the `Webhook-Signature` header.

    Args:
        secret: the endpoint's secret.
        timestamp: seconds since the epoch, the value of `Webhook-Timestamp`.
        body: the request body as it is sent.
    """
    signed = str(timestamp).encode() + b"." + body
    return _VERSION + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def verify_signature(
    secret: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: datetime,
    tolerance_seconds: float = TOLERANCE_SECONDS,
) -> None:
    """Return if a received webhook is genuine and fresh.

    Does not recognise a webhook that comes twice within the tolerance: remember its `Webhook-Id` for that.

    Args:
        secret: the secret shared with the sender.
        headers: the request's headers; looked up by the names of this module.
        body: the request body as it came, before any parsing.
        now: wall-clock time.
        tolerance_seconds: how far the timestamp may be off, in both directions.

    Raises:
        SignatureError: it is not; the receiver answers 401 and does nothing.
    """
    text, given = headers.get(TIMESTAMP_HEADER), headers.get(SIGNATURE_HEADER)
    if text is None or given is None:
        raise SignatureError(f"The webhook lacks {TIMESTAMP_HEADER} or {SIGNATURE_HEADER}. Refuse it.")
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise SignatureError(f"The webhook's timestamp is not a number of seconds: {text[:20]!r}. Refuse it.")
    # The signature first: what an unknown sender says about the time means nothing.
    expected = sign(secret, timestamp=int(text), body=body)
    if not hmac.compare_digest(expected.encode(), given.encode("utf-8", "surrogateescape")):
        raise SignatureError("The webhook's signature does not match its body and timestamp. Refuse it.")
    off_seconds = abs(now.timestamp() - int(text))
    if off_seconds > tolerance_seconds:
        raise SignatureError(
            f"The webhook's timestamp is {off_seconds:.0f} s off, more than {tolerance_seconds:g} s. "
            "Refuse it, and check this machine's clock."
        )
