"""Free ports on this machine."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nothing listens at this moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def is_open(port: int) -> bool:
    """Return whether something accepts connections there; a frozen server still does."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return True
    except OSError:
        return False
