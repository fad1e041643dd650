"""The conversation of one channel with the broker: fetch, wait to be woken, fetch again.

Requests are sent in one turn of the event loop and read in another, so that a busy worker makes one round
trip a turn, however many tasks it acknowledges and fetches in it.
"""

from __future__ import annotations

import logging
import random
import time
from queue import Empty
from typing import Any

from kombu.utils.encoding import bytes_to_str
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ReadOnlyError, ResponseError

from taskyard.transport.keys import STEPS_BY_URGENCY, keys_of_queue
from taskyard.transport.process_leases import LOST, fetch_arguments
from taskyard.transport.scripts import script

logger = logging.getLogger(__name__)

# How long after a refusal (a full server, a server that can't write) the broker is asked again.
REFUSED_PAUSE_SECONDS = 1.0
# A watch that is not renewed for so many polls ends: its worker has died.
WATCH_POLLS = 3
# A parked worker looks by itself this much less often than one that watches.
PARKED_POLLS = 3
# Of the lease. A fetch renews it too; the thread comes at a third (taskyard.transport.process_leases).
RENEW_AFTER = 0.3
BUSY, WATCHING, PARKED = 0, 1, 2
WOKEN = object()
# The answers of the arm script that are not a time.
SOMETHING, NOTHING = -1, -2


class Fetcher:
    """Sends the fetches of a channel and reads the answers."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.in_flight = False
        self._is_arming = False
        self._hears = False
        self._socket: Any = None
        self._acks: list[int] = []
        self._queues: list[str] = []
        self._wanted = 0
        self._wake_at = 0.0
        self._idle_state = BUSY
        self._was_woken = False
        self._asked_at = 0.0
        # Whether the server will tell this connection of the next cancellation (or can't tell anything).
        self._hears_of_cancels = False

    @property
    def wake_at(self) -> float:
        """Monotonic time of the next fetch without a reason."""
        return self._wake_at

    def wake(self) -> None:
        """Fetch at the next turn."""
        self._wake_at = 0.0

    def start(self, connection: Any) -> bool:
        """Send what there is to send; return whether an answer will come."""
        lease = self.channel.lease
        now = lease.beat_at = time.monotonic()
        if connection._sock is not self._socket:
            self._prepare(connection)
        self._wanted = self._count_wanted(now)
        if not (self._wanted or lease.has_acks or self._must_renew(now) or self._must_hear_of_cancels()):
            return False
        self._asked_at = now
        self._acks = lease.take_acks()
        self._send(connection, "EVALSHA", script("fetch").sha, 0, *self._request(lease))
        return True

    def _send(self, connection: Any, *command: Any) -> None:
        self.in_flight = True
        try:
            connection.send_command(*command)
        except self.channel.connection_errors:
            self.interrupted()
            raise

    def _count_wanted(self, now: float) -> int:
        channel = self.channel
        if (
            now < self._wake_at
            or channel.lease.inbox
            or not channel.active_queues
            or not channel.qos.can_consume()
        ):
            return 0
        if "can_consume" in vars(channel.qos):
            # Celery's worker_disable_prefetch puts its own question there, which is about one more message.
            return 1
        window = channel.qos.can_consume_max_estimate()
        return channel.fetch_max if window is None else min(window, channel.fetch_max)

    def _must_renew(self, now: float) -> bool:
        lease = self.channel.lease
        return bool(lease.epoch) and now - lease.renewed_at > self.channel.lease_ttl * RENEW_AFTER

    def _must_hear_of_cancels(self) -> bool:
        """Whether tasks may have been cancelled since the last answer, reserved ones among them."""
        return bool(self.channel.lease.epoch) and not self._hears_of_cancels

    def _request(self, lease: Any) -> list[Any]:
        channel = self.channel
        self._queues, leased = channel.arranged_queues() if self._wanted else ([], 0)
        return fetch_arguments(
            channel.lease_keys,
            lease.id if lease.epoch else "",
            channel.leases.ttl_microseconds,
            wanted=self._wanted,
            first_tag=lease.next_tag,
            idle_state=self._idle_state,
            group=channel.group,
            watch_microseconds=int(channel.poll_interval * WATCH_POLLS * 1_000_000),
            leased=leased,
            queues=[channel.queue_keys(queue) for queue in self._queues],
            acks=self._acks,
        )

    def _arm(self, connection: Any) -> None:
        """Ask the server to tell this connection of the next message, or of another worker's knock."""
        channel = self.channel
        self._is_arming = True
        if self._idle_state == PARKED:
            self._send(connection, "EXISTS", channel.lease_keys.wake(channel.lease.id))
            return
        keys = [channel.lease_keys.paused]
        for queue in self._queues:
            keys += channel.queue_keys(queue)[1:]
        arguments = [len(STEPS_BY_URGENCY), *self._queues]
        self._send(connection, "EVALSHA", script("arm").sha, len(keys), *keys, *arguments)

    def _prepare(self, connection: Any) -> None:
        """Once a connection: the script, the wake-up messages, and the lease under a new id."""
        self.interrupted()
        for name in ("fetch", "arm"):
            _ask(connection, "SCRIPT", "LOAD", script(name).source)
        self._hears = str(connection.get_protocol()) == "3"
        if self._hears:
            connection._parser.set_invalidation_push_handler(self._on_invalidation)
            _ask(connection, "CLIENT", "TRACKING", "ON")
        self._wake_at, self._idle_state = 0.0, BUSY
        self._hears_of_cancels = False
        if self.channel.is_leasing:
            self.channel.leases.cancelled.start_over()
            self.channel.take_up_lease(lambda *command: _ask(connection, *command))
        self._socket = connection._sock

    def lease_needed(self) -> None:
        """A consumer with acknowledgements was added: take up a lease before the next fetch."""
        self._socket = None

    def interrupted(self) -> None:
        """No answer will come: what was sent may or may not have happened, so it is sent again."""
        self.channel.lease.unsent_acks(self._acks)
        self._acks, self.in_flight, self._is_arming, self._socket = [], False, False, None

    def _on_invalidation(self, push: Any) -> Any:
        self._wake_at, self._was_woken = 0.0, True
        names = push[1]
        # None: the server forgets what this connection watches
        if names is None or self.channel.lease_keys.cancelled.encode() in names:
            self._hears_of_cancels = False
        return WOKEN

    def _hear_of_cancels(self, connection: Any, version: bytes) -> None:
        """Know what is cancelled before any message is handed on."""
        if not self.channel.lease.epoch:
            return
        cancelled = self.channel.leases.cancelled
        if cancelled.hear(version, asked_at=self._asked_at) or not self._hears_of_cancels:
            # Being read on this connection makes the server tell it of the next change.
            self._hears_of_cancels = True
            cancelled.read(lambda *command: _ask(connection, *command))

    def read(self, connection: Any) -> bool:
        """Read what has arrived: wake-up messages, and at most one answer.

        Returns:
            True if messages were handed out.

        Raises:
            Empty: none were.
        """
        answer = None
        try:
            while True:
                reply = connection.read_response(push_request=True)
                if reply is not WOKEN and self.in_flight:
                    answer, self.in_flight = reply, False
                    self._was_woken = False
                if connection._sock is None or not connection.can_read(timeout=0):
                    break
        except NoScriptError:
            # SCRIPT FLUSH, or a new primary
            self.interrupted()
        except ReadOnlyError as error:
            self.interrupted()
            connection.disconnect()
            raise RedisConnectionError("The broker has become a replica; connecting again.") from error
        except ResponseError as error:
            logger.error("The broker refuses the fetch: %s. It is asked again in a second.", error)  # noqa: TRY400
            self.channel.lease.unsent_acks(self._acks)
            self._acks, self.in_flight, self._is_arming = [], False, False
            self._wake_at = time.monotonic() + REFUSED_PAUSE_SECONDS
        except self.channel.connection_errors:
            self.interrupted()
            if answer is None:
                connection.disconnect()
                raise
            connection.disconnect()
        if answer is None or not self._take(connection, answer):
            raise Empty
        return True

    def _take(self, connection: Any, answer: Any) -> bool:
        if self._is_arming:
            self._is_arming = False
            self._wait(answer)
            return False
        lease, channel = self.channel.lease, self.channel
        acks, self._acks = self._acks, []
        if answer == LOST:
            lease.unsent_acks(acks)
            channel.lose_lease()
            return False
        channel.leases.renewed(lease)
        self._hear_of_cancels(connection, answer[1])
        messages = answer[2:]
        if messages:
            self._wake_at, self._idle_state = 0.0, BUSY
            self._receive(messages)
        elif self._wanted:
            self._idle_state = answer[0]
            if self._hears and connection._sock is self._socket:
                self._arm(connection)
            else:
                self._wait(NOTHING)
        return bool(channel.deliver_inbox())

    def _receive(self, messages: list[Any]) -> None:
        channel = self.channel
        served: dict[str, int] = {}
        for place in range(0, len(messages), 2):
            queue = self._queues[messages[place] - 1]
            served[queue] = served.get(queue, 0) + 1
            channel.lease.receive(queue, messages[place + 1], is_leased=queue not in channel.unleased_queues)
        for queue, count in served.items():
            channel.order.served(queue, count)

    def _wait(self, answer: int) -> None:
        """Wait for news.

        Args:
            answer: of the arm script, or whether a parked worker's key exists (somebody has knocked).
        """
        has_news = answer == 1 if self._idle_state == PARKED else answer == SOMETHING
        if has_news or self._was_woken:
            # the latter: the news came in the same breath as the answer, and after it
            self._wake_at = 0.0
            return
        wait = self.channel.poll_interval
        if self._idle_state == PARKED:
            wait *= PARKED_POLLS * random.uniform(0.75, 1.0)  # noqa: S311
        elif answer >= 0:
            wait = min(wait, answer / 1_000_000 + 0.001)
        self._wake_at = time.monotonic() + wait
        self.channel.connection.cycle.wake_after(wait)


def _ask(connection: Any, *command: Any) -> Any:
    """Send a command on a connection with nothing under way, and return the answer."""
    connection.send_command(*command)
    while (reply := connection.read_response(push_request=True)) is WOKEN:
        continue
    return reply


def queue_keys(prefix: str, queue: str) -> list[str]:
    """Return a queue's name and keys in the order in which the fetch script expects them."""
    return [queue, *(prefix + key for key in keys_of_queue(queue))]


def queue_of_key(key: bytes | str, prefix: str, separator: str) -> str:
    """Return the queue to which a list belongs."""
    return bytes_to_str(key).removeprefix(prefix).rsplit(separator, 1)[0]
