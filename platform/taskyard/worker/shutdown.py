"""How a worker stops: it takes nothing new, gives back what it has only reserved, lets running tasks finish
for a while, and puts back the rest.

Celery's own soft shutdown sleeps for its whole time inside the signal handler: nothing is acknowledged
meanwhile, and a worker whose last task ends after a second still takes the full twenty (c#9213). This one
runs in the event loop, so each finished task is acknowledged at once and the worker stops with the last one.
"""

from __future__ import annotations

import os
import signal
import threading
import types
from collections.abc import Callable
from typing import Any

import structlog
from celery import platforms
from celery.worker import state

from taskyard.clock import SYSTEM_CLOCK, Clock
from taskyard.worker import leases

log = structlog.stdlib.get_logger("taskyard.worker")

CHECK_SECONDS = 0.05
# Ending the pool and the connections takes a second or two; the usual grace period of orchestrators is 30 s,
# of which the patience is 20.
HANG_SECONDS = 8.0
EXIT_OK = 0
EXIT_HUNG = 1


class GracefulShutdown:
    """Stops one worker on SIGTERM or SIGINT.

    Args:
        worker: Celery's worker, started, with an event loop.
        patience_seconds: how long running tasks may go on.
        clock: monotonic time for that.
    """

    def __init__(self, worker: Any, *, patience_seconds: float, clock: Clock = SYSTEM_CLOCK) -> None:
        self.worker = worker
        self.patience_seconds = patience_seconds
        self.clock = clock
        self._deadline: float | None = None
        self._give_up = False

    def install(self) -> None:
        """Take over the signals from Celery."""
        for name in ("SIGTERM", "SIGINT"):
            platforms.signals[name] = self._on_signal

    def _on_signal(self, number: int, _: types.FrameType | None) -> None:
        # Nothing but a note: the work is done in the event loop, between two messages.
        if self._deadline is None:
            self._deadline = self.clock.monotonic() + self.patience_seconds
            self._end_if_it_hangs()
            self.worker.consumer.stop_at_connection_loss()
            self._soon(lambda: self._drain(signal.Signals(number).name))
        else:
            self._give_up = True

    def _end_if_it_hangs(self) -> None:
        """End the process some time after the patience in any case: the loop may hang in a frozen broker."""
        timer = threading.Timer(self.patience_seconds + HANG_SECONDS, end_now)
        timer.daemon = True
        timer.start()

    def _soon(self, call: Callable[[], None]) -> None:
        self.worker.consumer.hub.call_soon(call)

    def _drain(self, signal_name: str) -> None:
        running = len(state.active_requests)
        leases.begin_stop()
        returned = self._return_reserved()
        log.info(
            "worker stopping",
            signal=signal_name,
            running_tasks=running,
            returned_tasks=returned,
            patience_seconds=self.patience_seconds if running else 0,
        )
        self._check()

    def _return_reserved(self) -> int:
        """Stop consuming, and put back the messages that no process has begun; return how many."""
        consumer = self.worker.consumer
        try:
            if consumer.task_consumer is not None:
                consumer.task_consumer.cancel()
        except consumer.connection_errors:
            log.warning("the broker is away: what is reserved comes back when its lease ends")
        if self.worker.semaphore is not None:
            self.worker.semaphore.clear()
        waiting = [
            request for request in tuple(state.reserved_requests) if request not in state.active_requests
        ]
        waiting = [
            request for request in waiting if request.time_start is None and request._apply_result is None
        ]
        for request in waiting:
            state.reserved_requests.discard(request)
            request.reject(requeue=True)
        return len(waiting)

    def _check(self) -> None:
        """Stop when nothing runs any more, or when the patience has ended; else look again soon."""
        running = [request for request in tuple(state.active_requests) if not request.acknowledged]
        if not running:
            state.should_stop = EXIT_OK
        elif self._give_up or self.clock.monotonic() >= (self._deadline or 0.0):
            self._put_back(running)
        else:
            self.worker.consumer.hub.timer.call_after(CHECK_SECONDS, self._check)

    def _put_back(self, running: list[Any]) -> None:
        log.warning(
            "worker stops with running tasks: they go back to their queues", tasks=[r.name for r in running]
        )
        # Kills their processes; the messages are unacknowledged and return when the channel closes.
        self.worker.consumer.cancel_active_requests()
        state.should_terminate = EXIT_OK


def end_now() -> None:
    """End this process without another word to the broker; Linux ends its children with it."""
    log.error("worker does not stop: it ends now, and what it holds comes back when its lease ends")
    os._exit(EXIT_HUNG)


def install_graceful_shutdown(worker: Any, *, patience_seconds: float) -> None:
    """Make the worker stop as described above; leaves pools without an event loop to Celery."""
    if getattr(worker.consumer, "hub", None) is not None:
        GracefulShutdown(worker, patience_seconds=patience_seconds).install()
