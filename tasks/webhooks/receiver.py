"""A real receiver of webhooks for development, the demo and the tests: checks signatures, fails at times.

It is a small threaded server of the standard library and listens on 127.0.0.1 only.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

import structlog
from django.db import connection

from tasks.webhooks import signing
from tasks.webhooks.errors import SignatureError
from taskyard.clock import SYSTEM_CLOCK, Clock

log = structlog.stdlib.get_logger(__name__)

HOST = "127.0.0.1"
LARGEST_BODY = 1024 * 1024


@dataclass(slots=True)
class Received:
    """What has come in so far. `times_by_id` counts by `Webhook-Id`: more than 1 is a duplicate."""

    times_by_id: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    failed_on_purpose: int = 0
    dropped_on_purpose: int = 0
    correlation_ids: set[str] = field(default_factory=set)

    @property
    def unique(self) -> int:
        return len(self.times_by_id)

    @property
    def duplicates(self) -> int:
        return self.times_by_id.total() - self.unique


class WebhookReceiver:
    """A receiver that runs in the background while its context is open.

    Args:
        secret: what the signatures are checked with; that of the endpoint with this receiver's URL when None.
        port: where to listen; 0 for any free port.
        fail_rate: the share of requests, 0 to 1, that fail: one half gets 503 with `Retry-After: 1`, of the
            other half the connection is dropped after the event was taken, as if the answer had been lost.
        seed: makes the failures repeatable.
        on_received: called with the `Webhook-Id` of each event that was taken.
        clock: the time that timestamps are compared with.

    Raises:
        OSError: the port is taken.
    """

    def __init__(
        self,
        secret: str | None = None,
        *,
        port: int = 0,
        fail_rate: float = 0.0,
        seed: int | None = None,
        on_received: Callable[[str], None] | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.received = Received()
        self._secret = secret
        self._fail_rate, self._rng = fail_rate, random.Random(seed)  # noqa: S311 - which requests fail
        self._on_received, self._clock = on_received, clock
        self._lock = threading.Lock()
        self._server = _Server((HOST, port), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._server.server_port}/"

    def __enter__(self) -> WebhookReceiver:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def take(self, headers: Any, body: bytes) -> int | None:
        """Return the status to answer with, or None to drop the connection."""
        with self._lock:
            try:
                if self._secret is None:
                    self._secret = registered_secret(self.url)
                signing.verify_signature(self._secret, headers, body, now=self._clock.now())
            except SignatureError as error:
                self.received.refused += 1
                log.warning("webhook refused", reason=str(error))
                return 401
            fails = self._rng.random() < self._fail_rate
            if fails and self._rng.random() < 0.5:
                self.received.failed_on_purpose += 1
                return 503
            self._count(headers)
            self.received.dropped_on_purpose += fails
            return None if fails else 204

    def _count(self, headers: Any) -> None:
        webhook_id = headers.get(signing.ID_HEADER, "")
        self.received.times_by_id[webhook_id] += 1
        self.received.correlation_ids.add(headers.get("X-Request-ID", ""))
        if self._on_received is not None:
            self._on_received(webhook_id)


def registered_secret(url: str) -> str:
    """Return the secret of the endpoint with this URL.

    Raises:
        SignatureError: there is none.
    """
    from tasks.webhooks.models import WebhookEndpoint

    try:
        return WebhookEndpoint.objects.get(url=url).secret
    except WebhookEndpoint.DoesNotExist:
        raise SignatureError(
            f"No endpoint has the URL {url}. Add one, or give the receiver a secret."
        ) from None
    finally:
        # each request has a thread of its own, and Django a connection for each thread
        connection.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # many webhooks at once must wait in line, not be refused
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], receiver: WebhookReceiver) -> None:
        self.receiver = receiver
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 10.0

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LARGEST_BODY:
            self._answer(413)
            return
        status = self.server.receiver.take(self.headers, self.rfile.read(int(length)))
        if status is not None:
            self._answer(status)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        if status == 503:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the counts tell it all."""
