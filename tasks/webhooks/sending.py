"""One signed HTTP call: short timeouts, no redirects, a limited answer."""

from __future__ import annotations

import contextlib
import json
import ssl
from dataclasses import dataclass
from functools import lru_cache

import httpx

from tasks.webhooks import signing
from tasks.webhooks.destinations import Destination
from tasks.webhooks.errors import ReceiverUnavailableError
from tasks.webhooks.models import WebhookDelivery
from taskyard.clock import Clock

# Well below the high queue's soft limit of 55 s, also added up.
TIMEOUT = httpx.Timeout(connect=3.0, read=10.0, write=10.0, pool=1.0)
# The whole answer, however slowly it drips in.
ANSWER_SECONDS, ANSWER_BYTES = 15.0, 64 * 1024
ADDRESSES_TRIED = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """What the receiver answered."""

    response: httpx.Response
    excerpt: str

    @property
    def status(self) -> int:
        return self.response.status_code


def body_of(delivery: WebhookDelivery) -> bytes:
    """Return the request body: the same bytes in every attempt."""
    envelope = {
        "id": str(delivery.webhook_id),
        "event": delivery.event,
        "created_at": delivery.created_at.isoformat(),
        "data": delivery.payload,
    }
    return json.dumps(envelope, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def send(
    delivery: WebhookDelivery, destination: Destination, *, secret: str, correlation_id: str, clock: Clock
) -> Answer:
    """Send one delivery and return the answer, whatever its status.

    Raises:
        ReceiverUnavailableError: no answer came, or not within the timeouts.
    """
    body, timestamp = body_of(delivery), int(clock.now().timestamp())
    headers = {
        "Host": destination.host_header,
        "Content-Type": "application/json",
        "X-Request-ID": correlation_id,
        signing.ID_HEADER: str(delivery.webhook_id),
        signing.TIMESTAMP_HEADER: str(timestamp),
        signing.SIGNATURE_HEADER: signing.sign(secret, timestamp=timestamp, body=body),
    }
    try:
        return _post_to_first_reachable(destination, headers, body, clock)
    except httpx.TimeoutException as error:
        raise ReceiverUnavailableError(
            f"The receiver did not answer in time ({type(error).__name__})."
        ) from error
    except httpx.TransportError as error:
        raise ReceiverUnavailableError(
            f"The receiver cannot be reached ({type(error).__name__}: {error})."
        ) from error


def _post_to_first_reachable(
    destination: Destination, headers: dict[str, str], body: bytes, clock: Clock
) -> Answer:
    """Post to the first address that a connection can be made to, as browsers do."""
    # A client per call: kept-alive connections are found by address, and two names may share one.
    with httpx.Client(timeout=TIMEOUT, verify=_tls(), follow_redirects=False, trust_env=False) as client:
        *others, last = destination.connect_urls[:ADDRESSES_TRIED]
        for url in others:
            with contextlib.suppress(httpx.ConnectError, httpx.ConnectTimeout):
                return _post(client, url, destination.host_name, headers, body, clock)
        return _post(client, last, destination.host_name, headers, body, clock)


def _post(
    client: httpx.Client, url: httpx.URL, host_name: str, headers: dict[str, str], body: bytes, clock: Clock
) -> Answer:
    # TLS asks for, and checks the certificate of, the name and not the address.
    extensions = {"sni_hostname": host_name}
    with client.stream("POST", url, content=body, headers=headers, extensions=extensions) as response:
        return Answer(response, _read_excerpt(response, clock))


def _read_excerpt(response: httpx.Response, clock: Clock) -> str:
    """Read so much of the answer that a person sees what was wrong, and no more."""
    received, ends_at = b"", clock.monotonic() + ANSWER_SECONDS
    # as it came over the wire: decompressing would turn a small answer into a large one
    for chunk in response.iter_raw():
        received += chunk
        if len(received) >= ANSWER_BYTES or clock.monotonic() > ends_at:
            break
    return received[:500].decode("utf-8", "replace").replace("\x00", "")


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    """The TLS set-up of all calls: reading the certificates of the authorities takes longer than a call."""
    return httpx.create_ssl_context(trust_env=False)
