"""The leased channel: Kombu's Redis channel with messages that a process leases instead of pops."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import socket
from collections.abc import Callable
from functools import cached_property
from typing import Any

import redis
from kombu.transport import redis as kombu_redis
from kombu.transport import virtual
from redis.exceptions import RedisError

from taskyard.transport import delayed, publishing, reaper, returning
from taskyard.transport.deadline import DeadlineConnection, DeadlineSSLConnection
from taskyard.transport.delivery import deliver_inbox
from taskyard.transport.envelope import PUBLISHED_AT
from taskyard.transport.fetcher import Fetcher, queue_keys, queue_of_key
from taskyard.transport.keys import STEPS_BY_URGENCY, LeaseKeys, key_for_step, step_for_priority
from taskyard.transport.lease import Lease
from taskyard.transport.order import Order, Strict, Weighted
from taskyard.transport.process_leases import ProcessLeases, process_leases
from taskyard.transport.qos import QoS
from taskyard.transport.scripts import script
from taskyard.transport.server import refuse_unfit_server

logger = logging.getLogger(__name__)


class Channel(kombu_redis.Channel):
    """A channel whose messages are leased: not lost with a worker, not run twice because of a connection.

    Transport options, besides Kombu's:
        lease_ttl: seconds after which the messages of a silent worker come back; 10.
        lease_hang_seconds: a worker whose event loop stands still for longer loses its lease; 60.
        lease_busy_seconds: the same for a callback that runs a task itself, and without an event loop; 3600.
        max_deliveries: a message lost with its worker this often goes to the dead list; 0 for no bound; 5.
        fetch_max: messages a fetch at most; 100.
        poll_interval: seconds between two looks at an empty queue if no wake-up message comes; 1.
        queue_order: "strict", or "weighted" for a shared worker.
        queue_weights: for "weighted", by queue.
    """

    QoS = QoS
    # What `taskyard.transport.direct` pushes has the form that this channel gives messages.
    publishes_directly = True
    lease_ttl = 10.0
    lease_hang_seconds = 60.0
    lease_busy_seconds = 3600.0
    max_deliveries = 5
    fetch_max = 100
    poll_interval = 1.0
    queue_order = "strict"
    queue_weights: dict[str, float] = {}
    from_transport_options = (
        *kombu_redis.Channel.from_transport_options,
        "lease_ttl",
        "lease_hang_seconds",
        "lease_busy_seconds",
        "max_deliveries",
        "fetch_max",
        "poll_interval",
        "queue_order",
        "queue_weights",
    )

    queue_order_strategy = "priority"
    priority_steps = STEPS_BY_URGENCY
    connection_class = DeadlineConnection
    connection_class_ssl = DeadlineSSLConnection

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.lease = Lease()
        self.unleased_queues: set[str] = set()
        self._is_leasing = False
        self._sync_client: Any = None
        self._sync_pool: Any = None
        self._plain_client: Any = None
        self._queue_keys: dict[str, list[str]] = {}
        self._groups: dict[str, str] = {}
        self.fetcher = Fetcher(self)
        super().__init__(*args, **kwargs)
        self.order: Order = Weighted(self.queue_weights) if self.queue_order == "weighted" else Strict()
        try:
            refuse_unfit_server(self.broker_identity, lambda: self.plain_client)
        except Exception:
            self._disconnect_pools()
            raise

    # -- what the channel works with

    @cached_property
    def lease_keys(self) -> LeaseKeys:
        return LeaseKeys(self.global_keyprefix)

    @property
    def broker_identity(self) -> tuple[Any, ...]:
        """What tells this broker from others, whichever of its failover addresses is in use."""
        client = self.connection.client
        addresses = tuple(sorted(client.alt)) if client.alt else (client.hostname, client.port)
        return (*addresses, client.virtual_host, self.global_keyprefix)

    @cached_property
    def leases(self) -> ProcessLeases:
        """The leases of this process on this broker."""
        return process_leases(
            self.broker_identity,
            lambda: ProcessLeases(
                self.lease_keys,
                ttl_seconds=self.lease_ttl,
                hang_seconds=self.lease_hang_seconds,
                busy_seconds=self.lease_busy_seconds,
            ),
        )

    @property
    def plain_client(self) -> Any:
        """A client that leaves keys as they are, for scripts, which are given prefixed keys."""
        if self._plain_client is None or self._plain_client.connection_pool is not self.pool:
            self._plain_client = redis.Redis(connection_pool=self.pool)
        return self._plain_client

    def _create_client(self, asynchronous: bool = False) -> Any:
        # Kombu makes a client for each operation, which costs more than most operations.
        if asynchronous:
            return super()._create_client(asynchronous=True)
        if self._sync_client is None or self._sync_pool is not self._pool:
            self._sync_client = super()._create_client()
            self._sync_pool = self._pool
        return self._sync_client

    def queue_keys(self, queue: str) -> list[str]:
        keys = self._queue_keys.get(queue)
        if keys is None:
            keys = self._queue_keys[queue] = queue_keys(self.global_keyprefix, queue)
        return keys

    def arranged_queues(self) -> tuple[list[str], int]:
        """Return the queues for the next fetch, and how many of them (the first ones) are leased."""
        queues = self.active_queues
        if not self.unleased_queues:
            return self.order.arrange(queues), len(queues)
        leased = [queue for queue in queues if queue not in self.unleased_queues]
        popped = [queue for queue in queues if queue in self.unleased_queues]
        return self.order.arrange(leased) + popped, len(leased)

    @property
    def group(self) -> str:
        """Names the consumers with the same queues, which share the watch for new messages."""
        queues = ",".join(self.active_queues)
        if queues not in self._groups:
            self._groups = {queues: hashlib.sha1(queues.encode(), usedforsecurity=False).hexdigest()[:12]}
        return self._groups[queues]

    # -- consuming

    @property
    def is_leasing(self) -> bool:
        return self._is_leasing

    @property
    def is_polled(self) -> bool:
        """Whether the poller turns this channel: it consumes, or what it holds is still running."""
        return bool(self.active_queues) or (self._is_leasing and not self.lease.is_empty)

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **kwargs: Any) -> Any:
        if queue not in self._fanout_queues:
            if no_ack:
                self.unleased_queues.add(queue)
            else:
                self.unleased_queues.discard(queue)
                self._begin_leasing()
        self.fetcher.wake()
        return super().basic_consume(queue, no_ack, *args, **kwargs)

    def _begin_leasing(self) -> None:
        if self._is_leasing:
            return
        self._is_leasing = True
        popped, self.lease = self.lease.inbox, self.leases.borrow(self._make_thread_client())
        self.lease.inbox.extend(popped)
        self.fetcher.lease_needed()

    def _make_thread_client(self) -> Any:
        # a pool made for Sentinel puts its manager there
        manager: Any = self._sentinel_manager  # type: ignore[has-type]
        pool = self._get_pool()
        self._sentinel_manager = manager
        timeout = self.lease_ttl / 3
        for option in ("socket_timeout", "socket_connect_timeout"):
            pool.connection_kwargs[option] = min(timeout, pool.connection_kwargs.get(option) or timeout)
        return redis.Redis(connection_pool=pool)

    def take_up_lease(self, ask: Callable[..., Any]) -> None:
        """Continue the lease on a new connection, and sort out what has happened meanwhile.

        Args:
            ask: sends a command and returns the answer.
        """
        lease, keys = self.lease, self.lease_keys
        earlier = [*lease.earlier_ids, *([lease.id] if lease.epoch else [])]
        new_id = lease.next_epoch()
        names = [keys.leases, keys.holders, keys.messages(new_id), *map(keys.messages, earlier)]
        holder = {"host": socket.gethostname(), "pid": os.getpid(), "queues": self.active_queues}
        arguments = [new_id, self.leases.ttl_microseconds, 0, json.dumps(holder), *earlier]
        listed = ask("EVAL", script("adopt").source, len(names), *names, *arguments)
        del lease.earlier_ids[:]
        self.leases.renewed(lease)
        values = {int(listed[place]): listed[place + 1] for place in range(0, len(listed), 2)}
        unseen, lost = lease.resume(values)
        for tag in unseen:
            key, _, message = bytes(values[tag]).partition(b"\n")
            lease.receive_again(tag, queue_of_key(key, self.global_keyprefix, self.sep), message)
        if lost:
            self._log_lost(lost)

    def lose_lease(self) -> None:
        """The broker says that the lease is not ours any more; go on with a new one."""
        if lost := self.lease.lose():
            self._log_lost(lost)
        self.fetcher.lease_needed()

    def _log_lost(self, tags: list[int]) -> None:
        logger.warning(
            "The lease on %d messages has ended: this process was silent for too long (frozen, cut off or "
            "hung). They went back to their queues; what of them runs here runs a second time elsewhere.",
            len(tags),
        )
        if self.leases.on_lost is not None:
            self.leases.on_lost(self.lease, tags)

    def _brpop_start(self, timeout: float | None = None) -> None:  # noqa: ARG002
        connection = self.client.connection
        if self.fetcher.start(connection):
            self._in_poll, self._brpop_sent_at = connection, kombu_redis.monotonic()
        if self.lease.returns and self.lease.epoch:
            self.give_back_now()

    def _brpop_read(self, **options: Any) -> bool:  # noqa: ARG002
        connection = self.client.connection
        try:
            return self.fetcher.read(connection)
        finally:
            if self.fetcher.in_flight:
                # the answer to what was asked next
                self._brpop_sent_at = kombu_redis.monotonic()
            else:
                self._in_poll = None
                self._flush_brpop_reauth()

    def deliver_inbox(self) -> int:
        """Hand out what has been fetched; return how many messages."""
        return deliver_inbox(self)

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:
        message = super().basic_get(queue, no_ack, **kwargs)
        if message is not None and no_ack:
            self.lease.ack(message.delivery_tag)
            self.settle_unless_polled()
        return message

    def _get(self, queue: str) -> dict[str, Any]:
        self._begin_leasing()
        if not self.lease.epoch:
            self.take_up_lease(self.plain_client.execute_command)
        return delayed.get_one(self, queue)

    # -- settling

    @property
    def _is_turning(self) -> bool:
        """Whether the poller comes by soon.

        There is an event loop, or this is called from within a wait for events.
        """
        cycle = self.connection.cycle
        return cycle.hub is not None or cycle._in_protected_read

    def settle_unless_polled(self) -> None:
        """Send acknowledgements now where no loop does it."""
        if self.closed or self._is_turning or not self.lease.has_acks:
            return
        acks = self.lease.take_acks()
        try:
            is_ours = self.leases.settle(self.lease, self.plain_client, acks)
        except self.connection_errors:
            self.lease.unsent_acks(acks)
            raise
        if not is_ours:
            self.lose_lease()

    def give_back_soon(self) -> None:
        """Give back what was put back: with the next turn, all together and in order, where there is one."""
        if not self.closed and not self._is_turning:
            with contextlib.suppress(*self.connection_errors):
                self.give_back_now()

    def give_back_now(self) -> None:
        returning.give_back(self)

    def reap(self) -> int:
        """Bring back the messages of leases that have expired; return how many."""
        return reaper.reap(self)

    def close(self) -> None:
        if not self.closed:
            self._closing = True
            # The answer under way is not waited for: what it leases is found again, or given back.
            self._in_poll = None
            self.fetcher.interrupted()
            self._leave_lease()
        try:
            super().close()
        except self._closing_errors:
            # Half closed over a dead connection; stock Kombu fails again, and otherwise, at the second
            # attempt.
            logger.debug("closing over a dead connection", exc_info=True)
            self._finish_close()

    @property
    def _closing_errors(self) -> tuple[type[BaseException], ...]:
        return (*self.connection_errors, AttributeError)

    def _finish_close(self) -> None:
        transport = self.connection
        for step in (self._disconnect_pools, self._close_clients, lambda: virtual.Channel.close(self)):
            with contextlib.suppress(*self._closing_errors):
                step()
        self.closed = True
        if transport is not None:
            transport.cycle.discard(self)
            transport.close_channel(self)

    def _leave_lease(self) -> None:
        if not self._is_leasing:
            return
        if self.leases.is_kept:
            self.leases.leave(self.lease)
            return
        try:
            self.leases.release(self.lease, self.plain_client)
        except (RedisError, OSError):
            logger.warning("The broker is away: what this worker holds comes back when its lease ends.")

    def _disconnect_pools(self) -> None:
        self._sync_client = self._plain_client = None
        super()._disconnect_pools()

    # -- publishing

    def _get_message_priority(self, message: dict[str, Any], reverse: bool = False) -> int:  # noqa: ARG002
        try:
            priority = int(message["properties"]["priority"])
            # A stock producer that states no priority sends 0, its most urgent and our least.
            is_ours = PUBLISHED_AT in message["headers"]
        except (TypeError, ValueError, KeyError):
            return step_for_priority(None)
        return step_for_priority(priority if is_ours or priority else None)

    def _q_for_pri(self, queue: str, pri: int) -> str:
        return key_for_step(queue, pri)

    def _put(self, queue: str, message: dict[str, Any], **kwargs: Any) -> None:
        if not publishing.put(self, queue, message, kwargs.get("_publish_batch")):
            super()._put(queue, message, **kwargs)

    def _lookup(self, exchange: str, routing_key: str, default: str | None = None) -> list[str]:
        # A server that came back without its data has no bindings, and Kombu would drop the message.
        found: list[str] = super()._lookup(exchange, routing_key, default)
        return found or ([routing_key] if exchange == routing_key else [])

    def _purge(self, queue: str) -> int:
        purged: int = super()._purge(queue)
        return purged + delayed.purge(self, queue)

    def _delete(self, queue: str, *args: Any, **kwargs: Any) -> None:
        super()._delete(queue, *args, **kwargs)
        delayed.purge(self, queue)


class SentinelChannel(Channel, kombu_redis.SentinelChannel):
    """The same on a channel that asks Sentinel for the primary."""

    from_transport_options = tuple(
        dict.fromkeys((*Channel.from_transport_options, *kombu_redis.SentinelChannel.from_transport_options))
    )
    connection_class = kombu_redis.SentinelChannel.connection_class
    connection_class_ssl = kombu_redis.SentinelChannel.connection_class_ssl
