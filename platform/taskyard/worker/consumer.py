"""The consumer that keeps what it cannot understand, and what it runs while its connection is cut.

Stock Celery acknowledges a message whose task it does not know, whose body it cannot decode or whose content
type it refuses: it is gone. Here it becomes a dead letter first. If the store does not take it, the message
stays unacknowledged and the store is asked again later.

Stock Celery also drops what it has reserved when the connection is cut, because the broker hands it out
again. With leases the broker doesn't: everything stays with this process, and is acknowledged over the next
connection.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import structlog
from celery.exceptions import CPendingDeprecationWarning
from celery.worker import state
from celery.worker.consumer import Consumer as CeleryConsumer

from taskyard.tasks import failures
from taskyard.tasks.store_outage import OUTAGE
from taskyard.worker import dead_lists, leases, parked_lists
from taskyard.worker.messages import failure_of_message
from taskyard.worker.parked_lists import ParkedLists
from taskyard.worker.unfit import guard_execution

log = structlog.stdlib.get_logger("taskyard.worker")

EXIT_OK = 0


class Consumer(CeleryConsumer):
    """Celery's consumer with a dead letter in front of each acknowledgement of something not understood."""

    _is_reconnecting = False
    _stops_at_connection_loss = False
    _drains_dead_lists = False
    _has_crashed = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        guard_execution(self)

    def start(self) -> None:
        self._is_reconnecting = False
        try:
            super().start()
        except Exception:
            # Celery ends the worker.
            self._has_crashed = True
            leases.abandon()
            raise

    def loop_args(self) -> Any:
        """Celery's hook, the last before the event loop starts and looks at every pool process.

        A process that died while there was no connection has no file descriptor any more. Celery takes
        that for an unrecoverable error, and the worker ends. So the pool is put in order first.
        """
        maintain = getattr(self.pool, "maintain_pool", None)
        if self.restart_count > 0 and maintain is not None:
            maintain()
        return super().loop_args()

    def connect(self) -> Any:
        connection = super().connect()
        leases.attach(self)
        return connection

    def on_connection_error_before_connected(self, exc: BaseException) -> None:
        self._is_reconnecting = True
        super().on_connection_error_before_connected(exc)

    def on_connection_error_after_connected(self, exc: BaseException) -> None:
        self._is_reconnecting = True
        with warnings.catch_warnings():
            # Celery's advice to cancel running tasks, which is right only without leases
            warnings.simplefilter("ignore", CPendingDeprecationWarning)
            super().on_connection_error_after_connected(exc)
        if self._stops_at_connection_loss:
            self._stop_now()

    def on_close(self) -> None:
        was_cut, self._is_reconnecting = self._is_reconnecting, False
        if was_cut and leases.are_kept():
            leases.finish_writes(self.pool)
        else:
            super().on_close()

    def on_ready(self) -> None:
        super().on_ready()
        if not self._drains_dead_lists:
            self._drains_dead_lists = True
            self.timer.call_repeatedly(dead_lists.INTERVAL_SECONDS, dead_lists.drain, (self,))
            self.timer.call_repeatedly(parked_lists.INTERVAL_SECONDS, ParkedLists().drain, (self,))

    def shutdown(self) -> None:
        if not self._has_crashed:
            leases.end()
        super().shutdown()

    def create_task_handler(self, *args: Any, **kwargs: Any) -> Callable[[Any], None]:
        """Celery's hook: what is called with each message."""
        handle = super().create_task_handler(*args, **kwargs)

        def on_task_received(message: Any) -> None:
            try:
                handle(message)
            except Exception as error:
                # Kombu counts KeyError as a lost connection, too.
                is_broker = isinstance(error, self.connection_errors) and not isinstance(error, LookupError)
                if is_broker or _is_reserved(message):
                    raise
                # Stock Celery ends here, or connects again for ever: one wrong header stops every worker.
                self.on_invalid_task(None, message, error)

        return on_task_received

    def stop_at_connection_loss(self) -> None:
        """Have the worker stop instead of connecting again; at once if it is connecting now.

        Without this, a worker that is told to stop while its broker is away waits for it. What it runs, it
        cannot acknowledge: those tasks end with it, and run again when their lease has expired.
        """
        self._stops_at_connection_loss = True
        if self.connection is None:
            self._stop_now()

    def _stop_now(self) -> None:
        with contextlib.suppress(*self.connection_errors):
            self.cancel_active_requests()
        state.should_terminate = EXIT_OK

    def on_unknown_message(self, _body: Any, message: Any) -> None:
        self._keep(message, "invalid", "The message names no task")

    def on_unknown_task(self, _body: Any, message: Any, _exc: BaseException) -> None:
        name = (message.headers or {}).get("task", "")
        self._keep(message, "unknown_task", f"No worker knows the task {name!r}")

    def on_invalid_task(self, _body: Any, message: Any, exc: BaseException) -> None:
        self._keep(message, "invalid", f"{type(exc).__name__}: {exc}")

    def on_decode_error(self, message: Any, exc: BaseException) -> None:
        self._keep(message, "undecodable", f"{type(exc).__name__}: {exc}")

    def _keep(self, message: Any, reason: str, error: str) -> None:
        failure = failure_of_message(message, reason=reason, error=error)
        self._store(failure, lambda: message.reject_log_error(log, self.connection_errors))

    def _store(self, failure: failures.Failure, acknowledge: Callable[[], None]) -> None:
        try:
            failures.record(failure)
        except Exception:
            # the message stays unacknowledged
            self.timer.call_after(OUTAGE.pause_seconds(), self._store, (failure, acknowledge))
        else:
            acknowledge()


def _is_reserved(message: Any) -> bool:
    """Return whether the message has become a request that the pool may know: then it is not to blame."""
    return any(request.message is message for request in tuple(state.reserved_requests))
