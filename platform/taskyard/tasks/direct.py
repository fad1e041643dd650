"""The short way of a publish: what nearly every call is, without what it does not need.

Stock Celery and Kombu spend most of a `.delay()` on options that were not given: copies of queues and
exchanges, pools, retries around retries. A plain call (its arguments, a queue, a priority, headers) makes
the same message here and hands it to `taskyard.transport.direct`. Anything else goes Celery's way, and so
does this call if the short way fails. Celery's signals are sent, and whoever wraps `apply_async` or
`send_task` is on both ways.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from typing import Any

from celery import signals
from celery.utils.nodenames import anon_nodename
from kombu.utils.json import dumps

from taskyard.transport.direct import FAILURES, DirectPublisher, NotConnectedError
from taskyard.transport.keys import published_key
from taskyard.transport.wire import encode_plain, is_plain

# Options that the short way knows. All others must be unset.
_KNOWN = frozenset(
    {
        "add_to_parent",
        "argsrepr",
        "headers",
        "ignore_result",
        "kwargsrepr",
        "parent_id",
        "priority",
        "queue",
        "result_cls",
        "root_id",
        "shadow",
        "soft_time_limit",
        "task_type",
        "time_limit",
    }
)
# Values that mean no more than the option left out.
_USUAL = {"serializer": "json", "retries": 0}
_PERSISTENT = 2
_SHORT = 100


class DirectPublish:
    """The short way of one application's publishes.

    Args:
        app: a TaskyardCelery.
    """

    def __init__(self, app: Any) -> None:
        self.app = app
        self._publisher: DirectPublisher | None = None
        self._queues: set[str] = set()
        # Queues that never go the short way (Sentinel, an expiry, another transport): asked about once.
        self._declined: set[str] = set()
        self._origin = ""
        conf = app.conf
        # whether the project has left to us what the short way leaves out
        self._may = tuple(conf.task_routes or ()) == (app.router,) and not conf.task_send_sent_event

    def learn(self, name: str, args: Any, kwargs: Any, options: dict[str, Any]) -> None:
        """A publish has gone Celery's way: its queue is declared, and the broker works."""
        queue = self._route(name, args, kwargs, options)
        if not isinstance(queue, str) or queue in self._declined or self.is_ready_for(queue):
            return
        with self.app.producer_or_acquire() as producer:
            channel = getattr(producer, "channel", None)
            if not getattr(channel, "publishes_directly", False) or not DirectPublisher.serves(channel):
                self._declined.add(queue)
                return
            if self._publisher is None or not self._publisher.is_usable:
                self._publisher, self._queues = DirectPublisher(channel), set()
                self._origin = anon_nodename()  # has the process id in it
        declared = self.app.amqp.queues[queue]
        if declared.exchange.type == "direct" and declared.expires is None:
            self._queues.add(queue)
        else:
            self._declined.add(queue)

    def is_ready_for(self, queue: str) -> bool:
        """Return whether a plain call for the queue goes the short way now."""
        return self._publisher is not None and self._publisher.is_usable and queue in self._queues

    def forget(self) -> None:
        """The short way has failed: go Celery's way until that has worked again."""
        publisher, self._publisher = self._publisher, None
        if publisher is not None and publisher.is_usable:
            publisher.close()

    def send(self, name: str, args: Any, kwargs: Any, task_id: str, options: dict[str, Any]) -> Any:
        """Publish the call; return its result object, or None if it has to go Celery's way."""
        queue = self.queue_of(name, args, kwargs, options)
        publisher = self._publisher
        if queue is None or publisher is None:
            return None
        envelope, body = self.envelope(name, args, kwargs, task_id, options, queue)
        mark = published_key(queue, envelope)
        if mark is None or not is_plain(options["headers"]):
            return None
        try:
            publisher.push(queue, options["priority"], encode_plain(envelope), mark)
        except FAILURES:
            self.forget()
            return None
        if signals.after_task_publish.receivers:
            signals.after_task_publish.send(
                sender=name, body=body, headers=envelope["headers"], exchange="", routing_key=queue
            )
        return self._result(task_id, options)

    def push_many(self, queue: str, priority: int, raws: Sequence[bytes]) -> None:
        """Push finished messages in one round trip.

        Raises:
            NotConnectedError: nothing was sent.
            RedisError, OSError: nobody knows what has arrived.
        """
        publisher = self._publisher
        if publisher is None:
            raise NotConnectedError
        try:
            publisher.push_many(queue, priority, raws)
        except FAILURES:
            self.forget()
            raise

    def queue_of(self, name: str, args: Any, kwargs: Any, options: dict[str, Any]) -> str | None:
        """Return the queue of the call if it may go the short way."""
        for option, value in options.items():
            if value is not None and option not in _KNOWN and _USUAL.get(option) != value:
                return None
        publisher = self._publisher
        if publisher is None or not publisher.is_usable or not options.get("ignore_result"):
            return None
        if not self._may or signals.task_sent.receivers:
            return None
        queue = self._route(name, args, kwargs, options)
        return queue if isinstance(queue, str) and queue in self._queues else None

    def _route(self, name: str, args: Any, kwargs: Any, options: dict[str, Any]) -> Any:
        queue = options.get("queue")
        if queue is not None:
            return queue
        return self.app.router(name, args, kwargs, options, options.get("task_type"))["queue"]

    def envelope(
        self, name: str, args: Any, kwargs: Any, task_id: str, options: dict[str, Any], queue: str
    ) -> tuple[dict[str, Any], Any]:
        """Return the message as it lies on the broker, and its body as Celery's signals show it."""
        app = self.app
        root_id, parent_id = options.get("root_id"), options.get("parent_id")
        if not root_id or not parent_id:
            parent = app.current_worker_task
            if parent:
                root_id = root_id or parent.request.root_id or parent.request.id
                parent_id = parent_id or parent.request.id
        headers, properties, body, _ = app.amqp.as_task_v2(
            task_id,
            name,
            args,
            kwargs,
            reply_to=app.thread_oid,
            origin=self._origin,
            time_limit=options.get("time_limit"),
            soft_time_limit=options.get("soft_time_limit"),
            root_id=root_id,
            parent_id=parent_id,
            shadow=options.get("shadow"),
            ignore_result=options["ignore_result"],
            argsrepr=options.get("argsrepr") or short_repr(args or ()),
            kwargsrepr=options.get("kwargsrepr") or short_repr(kwargs or {}),
        )
        headers.update(options["headers"])
        properties["priority"] = options["priority"]
        if signals.before_task_publish.receivers:
            self._announce(name, body, headers, properties, queue)
            # a receiver may have added headers of any kind
            options["headers"] = headers
        properties |= {
            "delivery_mode": _PERSISTENT,
            "delivery_info": {"exchange": "", "routing_key": queue},
            "body_encoding": "base64",
            "delivery_tag": os.urandom(16).hex(),
        }
        envelope = {
            "body": encode_body(body),
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": headers,
            "properties": properties,
        }
        return envelope, body

    def _announce(
        self, name: str, body: Any, headers: dict[str, Any], properties: dict[str, Any], queue: str
    ) -> None:
        signals.before_task_publish.send(
            sender=name,
            body=body,
            exchange="",
            routing_key=queue,
            declare=[self.app.amqp.queues[queue]],
            headers=headers,
            properties=properties,
            retry_policy=dict(self.app.conf.task_publish_retry_policy),
        )

    def _result(self, task_id: str, options: dict[str, Any]) -> Any:
        result = (options.get("result_cls") or self.app.AsyncResult)(task_id)
        result.ignored = options["ignore_result"]
        if options.get("add_to_parent", True):
            parent = self.app.current_worker_task
            if parent:
                parent.add_trail(result)
        return result


def encode_body(body: Any) -> str:
    """Return the body of a message as it stands in the envelope."""
    args, kwargs, _ = body
    encoded = encode_plain(body) if is_plain(args) and is_plain(kwargs) else dumps(body).encode()
    return base64.b64encode(encoded).decode("ascii")


def short_repr(value: Any) -> str | None:
    """Return the text of short, simple arguments, for events; None where Celery has to make it."""
    items = value.values() if type(value) is dict else value
    for item in items:
        kind = type(item)
        if kind is str:
            if len(item) > _SHORT or not item.isalnum():
                return None
        elif kind is not int and kind is not bool and item is not None:
            return None
    return repr(value) if len(value) <= 10 else None
