"""A pytest plugin for Kombu's unit tests, whose Redis is a mock: it cannot say what kind of server it is."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from taskyard.transport import channel


def _take_any_server(broker: Hashable, make_client: Callable[[], Any]) -> None:
    return None


channel.refuse_unfit_server = _take_any_server  # type: ignore[attr-defined]
