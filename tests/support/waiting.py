"""Waiting for a condition with a deadline, instead of sleeping."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T], *, timeout_seconds: float, what: str, pause_seconds: float = 0.02
) -> T:
    """Return the condition's first truthy value, or fail saying what did not happen."""
    deadline = time.monotonic() + timeout_seconds
    pause = threading.Event()
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"Within {timeout_seconds:g} s this did not happen: {what}")
        pause.wait(pause_seconds)
