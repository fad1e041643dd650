"""What a demonstration needs, started and stopped around it when `make up` does not run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings as django_settings

from taskyard.clock import SYSTEM_CLOCK
from taskyard.conf import Settings
from taskyard.errors import LaunchError

START_SECONDS = 120.0
STOP_SECONDS = 60.0
ASK_SECONDS = 1.0


def served_queues() -> set[str]:
    """Return the queues that live workers serve; empty if the broker is away."""
    from celery import current_app
    from kombu.exceptions import OperationalError

    try:
        with current_app.connection_for_write() as connection:
            inspect = current_app.control.inspect(timeout=ASK_SECONDS, connection=connection)
            active: dict[str, list[dict[str, Any]]] = inspect.active_queues() or {}
    except (OperationalError, OSError):
        return set()
    return {queue["name"] for queues in active.values() for queue in queues}


@contextmanager
def platform(settings: Settings, *, say: Callable[[str], None]) -> Iterator[None]:
    """Use the running platform, or run one for the time being.

    Raises:
        LaunchError: the platform does not start, or the one that runs leaves queues without a worker.
    """
    wanted, served = set(settings.queue_table), served_queues()
    if served >= wanted:
        say("using the platform that is running")
        yield
        return
    if served:
        raise LaunchError(
            f"A platform is running, but no worker serves {', '.join(sorted(wanted - served))}. "
            "Start those workers (make worker QUEUE=...), or stop it: `make demo` then starts its own."
        )
    log = Path(django_settings.VAR_DIR) / "demo-up.log"
    say(f"starting the platform (its log: {log})")
    process = _start(log)
    try:
        _wait_until_served(process, wanted, log)
        yield
    finally:
        say("stopping the platform")
        _stop(process)


def _start(log: Path) -> subprocess.Popen[bytes]:
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "manage.py", "up", "--no-flower", "--no-beat"]
    with log.open("wb") as output:
        return subprocess.Popen(
            command, cwd=django_settings.BASE_DIR, stdout=output, stderr=output, start_new_session=True
        )


def _wait_until_served(process: subprocess.Popen[bytes], wanted: set[str], log: Path) -> None:
    deadline = SYSTEM_CLOCK.monotonic() + START_SECONDS
    while not served_queues() >= wanted:
        try:
            code = process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            code = None
        if code is not None or SYSTEM_CLOCK.monotonic() > deadline:
            end = (
                "ended with exit code " + str(code)
                if code is not None
                else f"was not ready in {START_SECONDS:g} s"
            )
            last = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise LaunchError(f"The platform {end}. The end of its log ({log}):\n{last}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
