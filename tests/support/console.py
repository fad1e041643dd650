"""A process of the project that does one thing after another for a test, as a web process does."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support import processes
from tests.support.workers import ROOT

START_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True)
class Reply:
    """What an action gave.

    Args:
        value: its return value, or None.
        error: names of the raised exception's classes, most special first; empty if there was none.
        message: the exception's text.
        seconds: how long the action took, measured in that process.
    """

    value: Any
    error: tuple[str, ...]
    message: str
    seconds: float


class ProjectConsole:
    """One `manage.py probe_console`; see `tests.probe_app.actions` for what it can do.

    Args:
        environment: all of its environment variables.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._replies: queue.Queue[str] = queue.Queue()
        self._errors: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "manage.py", "probe_console"],
            cwd=ROOT,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=processes.end_with_tests,
            text=True,
        )
        for read in (self._read_replies, self._read_errors):
            threading.Thread(target=read, daemon=True).start()
        self.run("ready", timeout_seconds=START_TIMEOUT_SECONDS)

    def run(self, action: str, *, timeout_seconds: float = 30.0, **arguments: Any) -> Reply:
        """Do it, and return what came of it; fail if it takes longer than the time: it hangs."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"action": action, "arguments": arguments}) + "\n")
        self._process.stdin.flush()
        try:
            line = self._replies.get(timeout=timeout_seconds)
        except queue.Empty:
            raise AssertionError(
                f"{action} did not return within {timeout_seconds:g} s.\n{self.log_end()}"
            ) from None
        assert line, f"the console ended while it did {action}:\n{self.log_end()}"
        answer = json.loads(line)
        return Reply(answer["value"], tuple(answer["error"]), answer["message"], answer["seconds"])

    def value(self, action: str, **arguments: Any) -> Any:
        """Do it, and return its value; fail if it raises."""
        reply = self.run(action, **arguments)
        assert not reply.error, f"{action} raised {reply.error[0]}: {reply.message}"
        return reply.value

    def log_end(self) -> str:
        return "".join(self._errors[-40:])

    def discard(self) -> None:
        processes.end_tree(self._process)

    def _read_replies(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                self._replies.put(line)
        self._replies.put("")

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            for line in stream:
                self._errors.append(line)
