"""Workers that start in a fraction of a second: forked from a process that has loaded the project already.

A worker that is started as usual loads for two seconds of processor time, so on two cores nothing else would
run in a test that kills one every second. What is forked is the same command, in a session of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests.support import processes
from tests.support.waiting import wait_until
from tests.support.workers import ROOT


class ForkedWorker:
    """One worker of a nursery.

    Args:
        pid: of its parent process, which leads a process group.
        log_file: where it writes.
    """

    def __init__(self, pid: int, log_file: Path) -> None:
        self.pid = pid
        self.log_file = log_file

    @property
    def is_running(self) -> bool:
        return not processes.are_gone([self.pid])

    @property
    def is_ready(self) -> bool:
        return "worker ready" in self.log()

    def log(self) -> str:
        return self.log_file.read_text(encoding="utf-8", errors="replace") if self.log_file.exists() else ""

    def kill(self) -> list[int]:
        """SIGKILL it with its pool, and return the ids of the pool processes that this has ended."""
        assert self.is_running, f"the worker had ended before it could be killed:\n{self.log()[-3000:]}"
        pool = processes.descendants(self.pid)
        os.killpg(self.pid, signal.SIGKILL)
        ended = [self.pid, *pool]
        wait_until(lambda: processes.are_gone(ended), timeout_seconds=10, what="the worker ends by SIGKILL")
        return pool


class Nursery:
    """A process of the project from which workers are forked.

    Args:
        environment: all of its environment variables.
        directory: for the logs.
    """

    def __init__(self, environment: Mapping[str, str], directory: Path) -> None:
        self.directory = directory
        self.workers: list[ForkedWorker] = []
        self._errors = (directory / "nursery.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.nursery_main"],
            cwd=ROOT,
            env={**environment, "PYTHONPATH": f"{ROOT}:{ROOT / 'platform'}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
            preexec_fn=processes.end_with_tests,
            text=True,
        )

    def start_worker(self, *arguments: str) -> ForkedWorker:
        """Fork a worker with these arguments of the command; it is not ready when this returns."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        log_file = self.directory / f"worker-{len(self.workers) + 1}.log"
        order = {"arguments": [*arguments, f"--name=w{len(self.workers) + 1}@test"], "log": str(log_file)}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the nursery ended:\n{(self.directory / 'nursery.log').read_text()[-3000:]}"
        worker = ForkedWorker(int(answer), log_file)
        self.workers.append(worker)
        return worker

    def discard(self) -> None:
        """End it with all its workers."""
        for worker in self.workers:
            with suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)
        processes.end_tree(self._process)
        self._errors.close()
