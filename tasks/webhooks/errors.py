"""How a delivery can fail: by what happens next."""

from __future__ import annotations

import httpx

from taskyard.errors import TaskyardError


class WebhookError(TaskyardError):
    """Root of this app's errors."""


class ReceiverUnavailableError(WebhookError):
    """The receiver did not take the delivery this time: try again.

    Args:
        response: its answer, where there was one; a `Retry-After` header in it is honoured.
    """

    def __init__(self, message: str, response: httpx.Response | None = None) -> None:
        self.response = response
        super().__init__(message)


class DeliveryRejectedError(WebhookError):
    """The receiver answered that it will never take this delivery. No retry."""


class ForbiddenDestinationError(WebhookError):
    """The endpoint's URL leads where webhooks must not go. No retry."""


class SignatureError(WebhookError):
    """A received webhook is not from us, was changed on the way, or is too old."""
