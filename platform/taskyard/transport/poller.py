"""Kombu's poller, with nothing to pause: an answer never holds more than there was room for."""

from __future__ import annotations

import contextlib
import logging
import random
import socket
import time
from collections.abc import Callable
from queue import Empty
from typing import Any

from kombu.transport import redis as kombu_redis

logger = logging.getLogger(__name__)

# How often a live worker looks for leases of dead ones; with the lease's own time this bounds their return.
REAP_SECONDS = 2.0
# Without an event loop acknowledgements come from other greenlets or threads, which don't end the wait.
ACK_POLL_SECONDS = 0.05
LONGEST_WAIT_SECONDS = 1.0


class Poller(kombu_redis.MultiChannelPoller):
    """Polls the connections of a transport's channels."""

    def __init__(self) -> None:
        super().__init__()
        self.hub: Any = None
        self._wake_at: float | None = None
        self._nudges: tuple[socket.socket, socket.socket] | None = None
        self._reap_at = 0.0
        self._sweep_at = 0.0

    def wake_after(self, seconds: float) -> None:
        """See to it that the event loop turns then."""
        at = time.monotonic() + seconds
        if self.hub is None or (self._wake_at is not None and time.monotonic() < self._wake_at <= at):
            return
        self._wake_at = at
        self.hub.call_later(seconds, self._woken)

    def turn_again(self) -> None:
        """Make the next wait return at once.

        The event loop knows only timers that were set before it began to wait.
        """
        if self.hub is None:
            return
        if self._nudges is None:
            self._nudges = socket.socketpair()
            for end in self._nudges:
                end.setblocking(False)
            self.hub.add_reader(self._nudges[0].fileno(), self._drain_nudges)
        with contextlib.suppress(BlockingIOError):
            self._nudges[1].send(b"\0")

    def _drain_nudges(self) -> None:
        if self._nudges is not None:
            with contextlib.suppress(BlockingIOError):
                self._nudges[0].recv(4096)

    def close(self) -> None:
        super().close()
        if self._nudges is not None:
            if self.hub is not None:
                self.hub.remove_reader(self._nudges[0].fileno())
            for end in self._nudges:
                end.close()
            self._nudges = None

    def _woken(self) -> None:
        self._wake_at = None

    def on_poll_init(self, poller: Any) -> None:
        self.poller = poller

    def on_poll_start(self) -> int:
        """Send what the channels have to send; return how many messages were handed out meanwhile."""
        delivered = 0
        for channel in tuple(self._channels):
            delivered += channel.deliver_inbox()
            if channel.closed:
                continue
            if channel.is_polled:
                self._register_BRPOP(channel)
            if channel.active_fanout_queues:
                self._register_LISTEN(channel)
        return delivered

    def on_readable(self, fileno: int) -> Any:
        known = self._fd_to_chan.get(fileno)
        if known is None:
            logger.debug("on_readable: fd %r not mapped, ignoring", fileno)
            return None
        channel, kind = known
        return channel.handlers[kind]()

    def get(self, callback: Callable[..., Any], timeout: float | None = None) -> None:  # noqa: ARG002
        """Wait for one event, without an event loop; see Kombu."""
        self._in_protected_read = True
        try:
            self.maybe_refresh_binding_expiry()
            self.maybe_restore_messages()
            if self.on_poll_start():
                return
            events = self.poller.poll(self._wait_seconds(timeout))
            for fileno, event in events or ():
                if self.handle_event(fileno, event):
                    return
            if not events:
                self.maybe_check_brpop_health()
            raise Empty
        finally:
            self._in_protected_read = False
            while self.after_read:
                self.after_read.pop()()

    def _wait_seconds(self, timeout: float | None) -> float:
        wait = LONGEST_WAIT_SECONDS if timeout is None else min(timeout, LONGEST_WAIT_SECONDS)
        now = time.monotonic()
        for channel in self._channels:
            if not channel.is_polled:
                continue
            if channel.lease.inbox:
                return 0.0
            if channel.lease.held:
                wait = min(wait, ACK_POLL_SECONDS)
            if not channel.fetcher.in_flight and channel.fetcher.wake_at > now:
                wait = min(wait, channel.fetcher.wake_at - now)
        return max(0.0, wait)

    def maybe_restore_messages(self) -> None:
        """Bring back the messages of dead workers: those with a lease, and those of stock Kombu."""
        channel = next((channel for channel in self._channels if channel.active_queues), None)
        now = time.monotonic()
        if channel is None:
            return
        try:
            if now >= self._reap_at:
                # not all workers at the same moment
                self._reap_at = now + REAP_SECONDS * random.uniform(0.75, 1.25)  # noqa: S311
                channel.reap()
            if now >= self._sweep_at:
                self._sweep_at = now + channel.unacked_restore_interval
                channel.qos.restore_visible(num=channel.unacked_restore_limit, interval=1)
        except (*channel.connection_errors, channel.ResponseError):
            logger.debug("looking for messages of dead workers failed, it is tried again", exc_info=True)
