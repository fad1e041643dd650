"""The payment provider: what the service expects of one, and one for development."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from typing import Protocol

from django.conf import settings
from django.utils.module_loading import import_string

# The sandbox decides by token, so that the data says what happens, not the moment.
TOKEN_ACCEPTED = "sandbox-accepted"  # noqa: S105 - not a secret
TOKEN_DECLINED = "sandbox-declined"  # noqa: S105
TOKEN_UNSTABLE = "sandbox-unstable"  # noqa: S105


class PaymentUnavailable(Exception):
    """The provider did not answer, but may have charged all the same: ask again with the same key."""


class CardDeclined(Exception):
    """The provider refuses to charge this card. Asking again changes nothing."""


@dataclass(frozen=True, slots=True)
class Charge:
    """What the provider says about a charge that it made."""

    reference: str
    amount_cents: int
    currency: str


class PaymentProvider(Protocol):
    """Charges cards."""

    def charge(self, *, amount_cents: int, currency: str, card_token: str, idempotency_key: str) -> Charge:
        """Charge the card, or return the charge that was made under this key before.

        Raises:
            PaymentUnavailable: no answer.
            CardDeclined: refused; nothing was charged.
        """


def payment_provider() -> PaymentProvider:
    """Return the provider that the setting ORDERS_PAYMENT_PROVIDER names; the sandbox without it."""
    name = getattr(settings, "ORDERS_PAYMENT_PROVIDER", None)
    provider: type[PaymentProvider] = SandboxProvider if name is None else import_string(name)
    return provider()


class SandboxProvider:
    """A provider for development: charges nothing, keeps nothing, and behaves as the token says.

    Args:
        rng: decides when an unstable token gets no answer.
        unavailable_rate: how often that is, 0 to 1.
    """

    def __init__(self, rng: random.Random | None = None, *, unavailable_rate: float = 0.5) -> None:
        self._rng = random.Random() if rng is None else rng  # noqa: S311 - a made-up failure, not a secret
        self._unavailable_rate = unavailable_rate

    def charge(self, *, amount_cents: int, currency: str, card_token: str, idempotency_key: str) -> Charge:
        """See `PaymentProvider`. The reference follows from the key, so the same key is the same charge."""
        if card_token == TOKEN_DECLINED:
            raise CardDeclined("The card was declined by the sandbox, as its token asks for.")
        if card_token == TOKEN_UNSTABLE and self._rng.random() < self._unavailable_rate:
            raise PaymentUnavailable("The sandbox did not answer, as the token asks for.")
        digest = hashlib.sha256(idempotency_key.encode()).hexdigest()
        return Charge(reference=f"sandbox-{digest[:24]}", amount_cents=amount_cents, currency=currency)
