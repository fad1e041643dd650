"""Monitoring events of a site's workers, as Flower receives them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.sites import Site
from tests.support.waiting import wait_until


@contextmanager
def monitoring_events(site: Site) -> Iterator[list[dict[str, Any]]]:
    """Listen until the end of the block; the list that is given grows with each event."""
    received: list[dict[str, Any]] = []
    stop = threading.Event()

    def listen() -> None:
        with site.app.connection_for_read() as connection:
            receiver = site.app.events.Receiver(connection, handlers={"*": received.append})
            with receiver.consumer_context():
                for _ in receiver.consume(limit=None, timeout=None, wakeup=False, safety_interval=0.1):
                    if stop.is_set():
                        return

    threading.Thread(target=listen, daemon=True).start()
    wait_until(lambda: received, timeout_seconds=30, what="the first heartbeat of the worker has come")
    yield received
    stop.set()
