"""What Taskyard needs to know of a broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from taskyard.conf import Settings


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a diagnosis.

    Args:
        what: the thing that was looked at.
        state: ok, warning or error.
        detail: what was found, with the value.
        advice: what to do; empty when all is well.
    """

    what: str
    state: Literal["ok", "warning", "error"]
    detail: str
    advice: str = ""


class Broker(Protocol):
    """The profile of one kind of broker."""

    name: str

    def celery_options(self, settings: Settings) -> dict[str, Any]:
        """Return the Celery options that this broker needs."""

    def publish_transport_options(self, settings: Settings) -> dict[str, Any]:
        """Return the transport options of connections that publish."""

    def diagnose(self, settings: Settings, *, timeout_seconds: float) -> list[Finding]:
        """Ask the broker, within the time, whether it is fit for the promise. Never raises."""

    def waiting(self, settings: Settings, *, timeout_seconds: float) -> dict[str, int]:
        """Return the number of waiting messages by queue, all priorities together.

        Raises:
            BrokerUnavailableError: the broker does not answer.
        """
