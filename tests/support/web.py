"""The site as a real process, as a browser sees it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support import processes
from tests.support.ports import free_port, is_open
from tests.support.waiting import wait_until
from tests.support.workers import ROOT

START_TIMEOUT_SECONDS = 60.0


class WebProcess:
    """One `manage.py web` on a port of its own; under DEBUG, so that it serves the static files.

    Args:
        environment: all of its environment variables.
        log_file: where its log is kept, for whoever looks into a failure.
    """

    def __init__(self, environment: Mapping[str, str], *, log_file: Path) -> None:
        self.port = free_port()
        self.log_file = log_file
        with log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "manage.py", "web", "--skip-checks"],
                cwd=ROOT,
                env={**environment, "DJANGO_DEBUG": "1", "TASKYARD_WEB_PORT": str(self.port)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=processes.end_with_tests,
            )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait_until_ready(self) -> None:
        wait_until(self._answers, timeout_seconds=START_TIMEOUT_SECONDS, what="the site answers")

    def log_end(self) -> str:
        return "\n".join(self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()[-40:])

    def discard(self) -> None:
        """End it in any state, at the end of a test."""
        processes.end_tree(self._process)

    def _answers(self) -> bool:
        assert self._process.poll() is None, f"The site ended by itself:\n{self.log_end()}"
        return is_open(self.port)
