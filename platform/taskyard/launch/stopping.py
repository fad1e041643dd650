"""Stopping in order: each stage ends before the next begins, whatever it takes."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from taskyard.clock import SYSTEM_CLOCK, Clock
from taskyard.launch.multiplexer import Multiplexer
from taskyard.launch.output import Console
from taskyard.launch.process import Process, StopStage
from taskyard.launch.stop_requests import StopRequests

TICK_SECONDS = 0.05
WORTH_A_LINE_SECONDS = 5.0


def stop_in_stages(
    processes: Sequence[Process],
    console: Console,
    requests: StopRequests,
    multiplexer: Multiplexer,
    *,
    clock: Clock = SYSTEM_CLOCK,
) -> None:
    """Stop every process, stage by stage; those of one stage at the same time.

    A process that does not end within its time is killed. A forced stop kills at once, except what has data
    to save. Output is shown all the while.
    """
    for stage in StopStage:
        members = [
            process for process in processes if process.spec.stop_stage == stage and process.is_running
        ]
        if members:
            _Stage(members, console, requests, multiplexer, clock).stop()
        for process in processes:
            if process.spec.stop_stage == stage:
                multiplexer.finish(process)


class _Stage:
    def __init__(
        self,
        members: list[Process],
        console: Console,
        requests: StopRequests,
        multiplexer: Multiplexer,
        clock: Clock,
    ) -> None:
        self._members = members
        self._console = console
        self._requests = requests
        self._multiplexer = multiplexer
        self._clock = clock
        self._killed: set[str] = set()

    def stop(self) -> None:
        began = self._clock.monotonic()
        for process in self._members:
            process.signal(self._first_signal(process))
        was_told = False
        while waiting := [process for process in self._members if process.is_running]:
            self._multiplexer.pump(TICK_SECONDS)
            waited_seconds = self._clock.monotonic() - began
            for process in waiting:
                self._kill_if_due(process, waited_seconds)
            if waited_seconds >= WORTH_A_LINE_SECONDS and not was_told:
                was_told = True
                self._console.say(self._waiting_line(waiting))

    def _first_signal(self, process: Process) -> signal.Signals:
        if self._requests.is_forced and process.spec.is_killed_when_forced:
            self._killed.add(process.name)
            return signal.SIGKILL
        return signal.SIGTERM

    def _kill_if_due(self, process: Process, waited_seconds: float) -> None:
        if process.name in self._killed:
            return
        limit_seconds = process.spec.stop_timeout_seconds
        if self._requests.is_forced and process.spec.is_killed_when_forced:
            self._console.complain(f"Killing {process.name} (pid {process.pid}), as asked.")
        elif waited_seconds >= limit_seconds:
            self._console.complain(
                f"{process.name} (pid {process.pid}) did not stop within {limit_seconds:g} s: killing it."
            )
        else:
            return
        self._killed.add(process.name)
        process.signal(signal.SIGKILL)

    def _waiting_line(self, waiting: list[Process]) -> str:
        names = ", ".join(process.name for process in waiting)
        longest_seconds = max(process.spec.stop_timeout_seconds for process in waiting)
        return f"Waiting for {names} to finish what they do, at most {longest_seconds:g} s."
