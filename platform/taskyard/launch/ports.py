"""Whether the ports that the parts need are free, asked before anything is started."""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass

HIGHEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class PortNeed:
    """A port that a part needs.

    Args:
        port: its number.
        host: the address that the part listens on.
        purpose: what listens there, for people: "the site".
        variable: the environment variable that changes the number.
    """

    port: int
    host: str
    purpose: str
    variable: str


def port_problems(needs: Sequence[PortNeed]) -> list[str]:
    """Return one sentence for each port that cannot be used, with the variable that changes it."""
    problems = []
    seen: dict[int, PortNeed] = {}
    for need in needs:
        if need.port in seen:
            other = seen[need.port]
            problems.append(
                f"Port {need.port} is asked for twice: for {other.purpose} ({other.variable}) and for "
                f"{need.purpose} ({need.variable}). Change one of the two."
            )
            continue
        seen[need.port] = need
        if problem := _problem(need, asked_for={each.port for each in needs}):
            problems.append(problem)
    return problems


def _problem(need: PortNeed, asked_for: set[int]) -> str | None:
    code = bind_error(need.host, need.port)
    if code is None:
        return None
    if code == errno.EADDRINUSE:
        free = next_free_port(need.host, need.port, besides=asked_for)
        example = f", e.g. {need.variable}={free}" if free else ""
        return (
            f"Port {need.port} on {need.host} is taken; {need.purpose} needs it. "
            f"Stop what listens there, or set {need.variable} to a free port{example}."
        )
    if code == errno.EACCES:
        return (
            f"Port {need.port} is not allowed for this user; {need.purpose} needs it. "
            f"Set {need.variable} above 1023."
        )
    return (
        f"Port {need.port} on {need.host} cannot be used for {need.purpose}: "
        f"{errno.errorcode.get(code, code)}. Set {need.variable}, or TASKYARD_HOST to this machine's address."
    )


def next_free_port(host: str, port: int, *, besides: set[int]) -> int | None:
    """Return a free port shortly above, or None."""
    for candidate in range(port + 1, min(port + 50, HIGHEST_PORT) + 1):
        if candidate not in besides and bind_error(host, candidate) is None:
            return candidate
    return None


def bind_error(host: str, port: int) -> int | None:
    """Return the errno with which a server could not listen there, or None if it could.

    Asks as servers do, with SO_REUSEADDR, so that connections lingering after a stop do not count.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror:
        return errno.EADDRNOTAVAIL
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            return error.errno
    # macOS lets an address be bound beside a server that listens on all addresses. Not asked on Linux, where
    # a connection to a free port can, rarely, connect to itself.
    return errno.EADDRINUSE if sys.platform == "darwin" and answers(host, port) else None


def answers(host: str, port: int, *, timeout_seconds: float = 0.3) -> bool:
    """Return whether somebody accepts connections there."""
    try:
        with socket.create_connection((host, port), timeout=timeout_seconds):
            return True
    except OSError:
        return False
