"""What is known of a breaker, for people and for metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

# The window is counted in so many parts: it is up to a tenth shorter than declared.
PARTS = 10
# States in which no run begins without being a probe.
OPEN_STATES = ("open", "half_open", "forced_open")


@dataclass(frozen=True, slots=True)
class BreakerState:
    """One breaker at one moment.

    Args:
        state: "closed", "open", "half_open", "recovering" or "forced_open".
        since: UTC epoch seconds; None if it has never changed.
        calls, failures: in the window; of a breaker that is not closed, those that opened it.
        parked: how often a run was told to come back later since it opened; a run may be told several times.
        probes: runs that are probing now.
        next_probe_in_seconds: of an open one, until a probe may begin; 0 if the next run will be one.
        last_error: the class of the last failure.
        forced_by, forced_because: who opened it by hand, and why.
    """

    name: str
    state: str
    since: float | None
    calls: int
    failures: int
    parked: int = 0
    probes: int = 0
    next_probe_in_seconds: float | None = None
    last_error: str = ""
    forced_by: str = ""
    forced_because: str = ""

    @property
    def failure_rate(self) -> float | None:
        """The part of the calls that has failed; None without calls."""
        return self.failures / self.calls if self.calls else None

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON-native values."""
        rate = self.failure_rate
        since = None if self.since is None else datetime.fromtimestamp(self.since, UTC).isoformat()
        return asdict(self) | {"since": since, "failure_rate": None if rate is None else round(rate, 4)}


def read_state(name: str, fields: Mapping[str, str], probes: int, now: float) -> BreakerState:
    """Return the state that a stored hash means.

    Args:
        fields: as the scripts have stored them.
        probes: runs that hold a place now.
        now: the time on the server, in epoch seconds.
    """
    state = fields.get("state", "closed")
    until = float(fields.get("until", 0)) / 1000
    since = float(fields["since"]) / 1000 if "since" in fields else None
    if state == "recovering" and now >= until:
        # the next run that asks writes it down
        state, since = "closed", until
    is_closed = state not in OPEN_STATES
    calls, failures = _window(fields, now) if is_closed else _stored(fields)
    return BreakerState(
        name=name,
        state=state,
        since=since,
        calls=calls,
        failures=failures,
        parked=int(fields.get("parked", 0)),
        probes=0 if is_closed else probes,
        next_probe_in_seconds=max(0.0, round(until - now, 3)) if state == "open" else None,
        last_error=fields.get("error", ""),
        forced_by=fields.get("who", "") if state == "forced_open" else "",
        forced_because=fields.get("why", "") if state == "forced_open" else "",
    )


def _stored(fields: Mapping[str, str]) -> tuple[int, int]:
    return int(fields.get("calls", 0)), int(fields.get("failures", 0))


def _window(fields: Mapping[str, str], now: float) -> tuple[int, int]:
    """Return calls and failures within the window."""
    length = int(fields.get("part", 0))
    if not length:
        return 0, 0
    newest = int(now * 1000 // length)
    calls = failures = 0
    for number in range(PARTS):
        part, counted, failed = map(int, fields.get(f"w{number}", "0 0 0").split())
        if newest - PARTS < part <= newest:
            calls, failures = calls + counted, failures + failed
    return calls, failures
