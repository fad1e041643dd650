"""Runs commands as a newcomer would, and sees what is left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import psutil

from tests.support.waiting import wait_until


class Command:
    """A command in the foreground of a terminal of its own; its output is collected as it comes."""

    def __init__(self, arguments: list[str], *, cwd: Path, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            arguments,
            cwd=cwd,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, text: str, *, timeout_seconds: float) -> str:
        """Return the first line that contains the text; fail if the command ends or the time is up."""

        def found() -> str | None:
            hit = next((line for line in self.lines if text in line), None)
            if hit is None and self.process.poll() is not None and not self._reader.is_alive():
                raise AssertionError(
                    f"The command ended ({self.process.returncode}) without {text!r}:\n{self.output}"
                )
            return hit

        try:
            return wait_until(found, timeout_seconds=timeout_seconds, what=f"a line with {text!r}") or ""
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.output}") from None

    def press_ctrl_c(self) -> None:
        """Do what the terminal does: SIGINT to the whole foreground process group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def wait(self, *, timeout_seconds: float) -> int:
        """Return the exit code."""
        code = self.process.wait(timeout=timeout_seconds)
        self._reader.join(timeout=10)
        return code


class Newcomer:
    """Somebody in a clean clone.

    Args:
        clone: the checkout.
        environment: everything that the commands see.
    """

    def __init__(self, clone: Path, environment: dict[str, str]) -> None:
        self.clone = clone
        self.environment = environment
        self._commands: list[Command] = []

    def types(self, *arguments: str, **extra: str) -> Command:
        """Start a command in the clone."""
        command = Command(list(arguments), cwd=self.clone, environment=self.environment | extra)
        self._commands.append(command)
        return command

    def processes(self) -> list[psutil.Process]:
        """Return every live process that works in the clone or runs its programs."""
        found = []
        for process in psutil.process_iter():
            try:
                text = " ".join(process.cmdline()) + " " + process.cwd()
                if str(self.clone) in text and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def forget(self) -> None:
        """Remove what earlier commands have written, except the environment that they have made."""
        shutil.rmtree(self.clone / "var", ignore_errors=True)

    def stop_everything(self) -> None:
        """Kill what a failed test has left."""
        for process in self.processes():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
