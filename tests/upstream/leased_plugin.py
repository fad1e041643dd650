"""A pytest plugin that puts the leased transport in the place of Kombu's, before tests are imported."""

from __future__ import annotations

import kombu.transport
import kombu.transport.redis as stock

import taskyard.transport.redis as leased

for scheme in ("redis", "rediss"):
    kombu.transport.TRANSPORT_ALIASES[scheme] = "taskyard.transport.redis:Transport"
kombu.transport.TRANSPORT_ALIASES["sentinel"] = "taskyard.transport.redis:SentinelTransport"
stock.Channel = leased.Channel  # type: ignore[misc]
stock.SentinelChannel = leased.SentinelChannel  # type: ignore[misc]
stock.Transport = leased.Transport  # type: ignore[misc]
stock.SentinelTransport = leased.SentinelTransport  # type: ignore[misc]
stock.QoS = leased.Channel.QoS  # type: ignore[misc]
