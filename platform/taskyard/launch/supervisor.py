"""Runs the parts: starts them in order, shows their output, starts again what ends, stops them in stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from taskyard.clock import SYSTEM_CLOCK, Clock
from taskyard.launch.multiplexer import Multiplexer
from taskyard.launch.output import Console
from taskyard.launch.process import Process, describe_exit
from taskyard.launch.restarts import RestartHistory, RestartLimits
from taskyard.launch.stop_requests import StopRequests
from taskyard.launch.stopping import stop_in_stages

TICK_SECONDS = 0.1
READY_CHECK_SECONDS = 0.3
SLOW_START_SECONDS = 60.0
KEPT_LINES = 15


class Part:
    """A process under supervision."""

    def __init__(self, process: Process, limits: RestartLimits) -> None:
        self.process = process
        self.history = RestartHistory(limits)
        self.is_ready = False
        self.restart_at: float | None = None

    @property
    def name(self) -> str:
        return self.process.name


class Supervisor:
    """Runs processes until a signal asks to stop, or one of them cannot be kept running.

    Args:
        processes: in the order of their start. One that runs already is taken over.
        console: where their lines and ours go.
        requests: the signals, entered by the caller.
        on_ready: called once, when every part is ready.
        limits: when a part that keeps ending is given up.
        slow_start_seconds: the parts that are not ready are named each time that this has passed.
        clock: for delays and deadlines.

    Call it from the main thread: the parts' lives are tied to the thread that starts them.
    """

    def __init__(
        self,
        processes: Sequence[Process],
        console: Console,
        requests: StopRequests,
        *,
        on_ready: Callable[[], None] = lambda: None,
        limits: RestartLimits | None = None,
        slow_start_seconds: float = SLOW_START_SECONDS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._limits = limits or RestartLimits()
        self._parts = [Part(process, self._limits) for process in processes]
        self._console = console
        self._requests = requests
        self._on_ready = on_ready
        self._slow_start_seconds = slow_start_seconds
        self._clock = clock
        self._multiplexer = Multiplexer(console, clock=clock)
        self._all_were_ready = False
        self._next_ready_check = 0.0
        self.failure: str | None = None

    def run(self) -> int:
        """Run until the end.

        Returns:
            the exit code: 0 after a signal, 1 when a part could not be kept running.
        """
        self._requests.wait_for_stop()
        try:
            self._start_all()
            # Without an output there is nobody to serve: `up | head`, a closed terminal.
            while not (self._requests.is_asked or self._console.is_gone or self.failure):
                self._multiplexer.pump(TICK_SECONDS)
                self._watch()
                self._restart_due()
                self._check_ready()
        finally:
            self._announce_stop()
            stop_in_stages(
                [part.process for part in self._parts],
                self._console,
                self._requests,
                self._multiplexer,
                clock=self._clock,
            )
            self._multiplexer.close()
        if self.failure is not None:
            self._console.complain(self.failure)
            return 1
        self._console.say("Stopped.")
        return 0

    def _start_all(self) -> None:
        self._started_at = self._slow_since = self._clock.monotonic()
        for part in self._parts:
            if self._requests.is_asked:
                return
            if not part.process.is_running:
                part.process.start()
            self._multiplexer.add(part.process)

    def _watch(self) -> None:
        for part in self._parts:
            if part.restart_at is None and (code := part.process.poll()) is not None:
                self._multiplexer.finish(part.process)
                self._handle_exit(part, code)

    def _handle_exit(self, part: Part, code: int) -> None:
        now = self._clock.monotonic()
        part.is_ready = False
        delay_seconds = part.history.record_exit(now)
        what = f"{part.name} (pid {part.process.pid}) ended unexpectedly: {describe_exit(code)}."
        if delay_seconds is None:
            self.failure = self._explain(part, code)
            self._console.complain(what)
        else:
            self._console.complain(f"{what} It starts again in {delay_seconds:g} s.")
            part.restart_at = now + delay_seconds

    def _explain(self, part: Part, code: int) -> str:
        lines = self._multiplexer.last_lines(part.process, KEPT_LINES)
        last = (
            "\n".join(["Its last lines:", *(f"    {line}" for line in lines)])
            if lines
            else "It has written nothing."
        )
        return (
            f"{part.name} ended {self._limits.max_exits} times within {self._limits.window_seconds:g} s, "
            f"so everything was stopped. The last time: {describe_exit(code)}. {last}"
        )

    def _restart_due(self) -> None:
        now = self._clock.monotonic()
        for part in self._parts:
            if part.restart_at is not None and part.restart_at <= now and self.failure is None:
                part.restart_at = None
                part.process.start()
                self._multiplexer.add(part.process)

    def _check_ready(self) -> None:
        now = self._clock.monotonic()
        if now < self._next_ready_check:
            return
        self._next_ready_check = now + READY_CHECK_SECONDS
        for part in self._parts:
            if part.is_ready or not part.process.is_running:
                continue
            part.is_ready = part.process.spec.is_ready is None or part.process.spec.is_ready()
            if part.is_ready and self._all_were_ready:
                self._console.say(f"{part.name} runs again (pid {part.process.pid}).")
        if self._all_were_ready:
            return
        missing = [part.name for part in self._parts if not part.is_ready]
        if not missing:
            self._all_were_ready = True
            self._on_ready()
        elif now - self._slow_since >= self._slow_start_seconds:
            self._slow_since = now
            self._console.complain(f"Not ready after {now - self._started_at:.0f} s: {', '.join(missing)}.")

    def _announce_stop(self) -> None:
        if self._requests.is_asked:
            self._console.say(f"Stopping ({self._requests.reason}). Ctrl-C again stops without waiting.")
        elif self.failure is not None:
            self._console.complain("Stopping everything.")
