"""One profile a broker, behind one small interface."""

from __future__ import annotations

from urllib.parse import urlsplit

from taskyard.brokers.interface import Broker, Finding
from taskyard.brokers.redis import RedisBroker
from taskyard.conf import Settings

__all__ = ["Broker", "Finding", "broker_for"]


def broker_for(settings: Settings) -> Broker:
    """Return the profile of the configured broker. Connects to nothing."""
    scheme = urlsplit(settings.effective_broker_url.split(";")[0]).scheme
    return RedisBroker(uses_sentinel=scheme == "sentinel")
