"""How the launcher knows that a part does its work, not only that its process runs."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from pathlib import Path

TIMEOUT_SECONDS = 1.0
# Where a server that listens on all addresses is reached from this machine.
LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104


def reachable_host(host: str) -> str:
    """Return an address of this machine at which a server that listens on `host` is reached."""
    return LOOPBACK.get(host, host)


def answers_http(host: str, port: int, path: str) -> Callable[[], bool]:
    """Return a check: a web server answers there, whatever it answers."""

    def check() -> bool:
        connection = http.client.HTTPConnection(reachable_host(host), port, timeout=TIMEOUT_SECONDS)
        try:
            connection.request("GET", path)
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        return True

    return check


def file_exists(path: Path) -> Callable[[], bool]:
    """Return a check: the part has touched its ready file (see `taskyard.launch.ready_file`)."""
    return path.exists


def remove_file(path: Path) -> Callable[[], None]:
    """Return what makes the ready file of an earlier run disappear before the next start."""

    def remove() -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)

    return remove
