"""A pytest plugin that puts the leased transport in the place of Kombu's, before any test module is imported.

python -m pytest -p tests.upstream.leased_plugin ...
"""

from __future__ import annotations

import kombu.transport
import kombu.transport.redis as stock

import taskyard.transport.redis as leased

for scheme in ("redis", "rediss"):
    kombu.transport.TRANSPORT_ALIASES[scheme] = "taskyard.transport.redis:Transport"
kombu.transport.TRANSPORT_ALIASES["sentinel"] = "taskyard.transport.redis:SentinelTransport"
stock.Channel = leased.Channel
stock.SentinelChannel = leased.SentinelChannel
stock.Transport = leased.Transport
stock.SentinelTransport = leased.SentinelTransport
stock.QoS = leased.Channel.QoS
