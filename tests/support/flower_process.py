"""Flower as a real process, and what it shows."""

from __future__ import annotations

import base64
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from tests.support import processes
from tests.support.ports import free_port, is_open
from tests.support.waiting import wait_until
from tests.support.workers import ROOT

PASSWORD = "only-for-this-test"


class FlowerProcess:
    """One `manage.py flower` on a port of its own.

    Args:
        environment: all of its environment variables.
        log_file: where its log is kept.
    """

    def __init__(self, environment: Mapping[str, str], *, log_file: Path) -> None:
        self.port = free_port()
        self.log_file = log_file
        with log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "manage.py", "flower"],
                cwd=ROOT,
                env={
                    **environment,
                    "TASKYARD_FLOWER_PORT": str(self.port),
                    "TASKYARD_FLOWER_PASSWORD": PASSWORD,
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=processes.end_with_tests,
            )
        wait_until(self._answers, timeout_seconds=60, what="Flower answers")

    def page(self, path: str) -> str:
        """Return a page, logged in."""
        login = base64.b64encode(f"flower:{PASSWORD}".encode()).decode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", headers={"Authorization": f"Basic {login}"}
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            return str(response.read().decode())

    def discard(self) -> None:
        processes.end_tree(self._process)

    def _answers(self) -> bool:
        assert self._process.poll() is None, self.log_file.read_text()
        return is_open(self.port)
