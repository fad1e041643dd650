"""Real worker processes: started as a user starts them, watched through their log, and hurt on purpose."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tests.support import processes
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_SECONDS = 60.0

Event = dict[str, Any]


class WorkerProcess:
    """One `manage.py worker` in a session of its own, with its log.

    Args:
        environment: all of its environment variables; LOG_FORMAT must be json.
        arguments: of the command, for instance `["--processes", "2"]`.
        log_file: where a copy of its log is kept, for whoever looks into a failure.
    """

    def __init__(self, environment: Mapping[str, str], arguments: list[str], *, log_file: Path) -> None:
        self.lines: list[str] = []
        self.log_file = log_file
        self._must_live = True
        self._process = subprocess.Popen(
            [sys.executable, "manage.py", "worker", *arguments],
            cwd=ROOT,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=processes.end_with_tests,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def assert_alive(self) -> None:
        """Fail, with the end of the log, if the worker has ended without having been told to."""
        if self._must_live and not self.is_running:
            self._reader.join(timeout=5)
            raise AssertionError(
                f"The worker ended by itself ({self._process.returncode}). "
                f"{self.log_file} ends:\n{self.log_end()}"
            )

    def children(self) -> list[int]:
        """Return the process ids of its pool."""
        return processes.descendants(self.pid)

    def wait_until_ready(self, timeout_seconds: float = START_TIMEOUT_SECONDS) -> None:
        self.wait_for_log("worker ready", timeout_seconds=timeout_seconds)

    def log_events(self, message: str | None = None, *, is_start: bool = False, **fields: Any) -> list[Event]:
        """Return the log lines with this message (or one that starts so) and these fields."""

        def is_wanted(text: str) -> bool:
            return message is None or text == message or (is_start and text.startswith(message))

        return [
            event
            for event in map(_parse, tuple(self.lines))
            if is_wanted(event["message"]) and all(event.get(name) == value for name, value in fields.items())
        ]

    def wait_for_log(
        self, message: str, *, count: int = 1, timeout_seconds: float = 30.0, **fields: Any
    ) -> list[Event]:
        """Return the log lines with this message and these fields as soon as there are so many."""

        def is_there() -> bool:
            found = len(self.log_events(message, **fields)) >= count
            if not found:
                self.assert_alive()
            return found

        try:
            wait_until(
                is_there, timeout_seconds=timeout_seconds, what=f"the worker logs {message!r} {fields or ''}"
            )
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log_file} ends:\n{self.log_end()}") from None
        return self.log_events(message, **fields)

    def log_end(self, lines: int = 40) -> str:
        return "\n".join(self.lines[-lines:])

    def terminate(self) -> None:
        """SIGTERM to the parent process only."""
        self._must_live = False
        self._process.terminate()

    def terminate_group(self) -> None:
        """SIGTERM to the whole process group, as a terminal, an init or a shell does."""
        self._must_live = False
        os.killpg(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL the parent; its children must follow."""
        self._must_live = False
        children = self.children()
        processes.kill(self._process)
        wait_until(lambda: processes.are_gone(children), timeout_seconds=10, what="the orphaned children end")

    def kill_children(self) -> list[int]:
        """SIGKILL every process of the pool, and return the ids of those that this has ended."""
        killed = []
        for pid in self.children():
            # one that a task has killed just before is not ours to count
            with suppress(psutil.NoSuchProcess):
                processes.kill_pid(pid)
                killed.append(pid)
        assert killed, "the worker had no children to kill"
        return killed

    def freeze(self) -> None:
        """SIGSTOP the parent."""
        processes.freeze(self.pid)

    def thaw(self) -> None:
        processes.thaw(self.pid)

    def wait_for_exit(self, timeout_seconds: float) -> int:
        """Return the exit code; fail with the end of the log if it does not end in time."""
        try:
            code = self._process.wait(timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"The worker did not end within {timeout_seconds:g} s.\n{self.log_end()}"
            ) from None
        self._reader.join(timeout=5)
        return code

    def discard(self) -> None:
        """End it in any state, at the end of a test."""
        self._must_live = False
        processes.end_tree(self._process)
        self._reader.join(timeout=5)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream, self.log_file.open("wb", buffering=0) as copy:
            for line in stream:
                copy.write(line)
                self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))


def _parse(line: str) -> Event:
    try:
        event = json.loads(line)
    except ValueError:
        return {"message": line}
    return event if isinstance(event, dict) and "message" in event else {"message": line}
