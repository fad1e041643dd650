"""The state of all breakers on one Redis or Valkey server: a round trip to ask, one to tell how a run ended.

What the scripts in `lua/` do is one step each, so any number of processes may ask at once. Only the server's
clock counts. A breaker has one small hash of fixed size, forgotten an hour after its last call.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from redis.exceptions import RedisError, ResponseError

from taskyard.breakers.definition import Breaker
from taskyard.breakers.outage import Outage
from taskyard.breakers.state import PARTS, BreakerState, read_state
from taskyard.clock import Clock
from taskyard.conf import DATABASE_STATE, Settings
from taskyard.errors import ConfigurationError, StateUnavailableError
from taskyard.masking import mask_url
from taskyard.state.redis_client import connect
from taskyard.transport.scripts import script

# A run that asks must not wait for long: where the server does not answer, it begins without its consent.
TIMEOUT_SECONDS = 2.0
# However many runs are parked at one breaker, so many of them come back a second at most.
RETURNS_PER_SECOND = 100
# How long a run waits for which no time of a probe is known: its breaker was opened by hand.
FORCED_WAIT_SECONDS = 60.0
REMEMBERED_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Change:
    """A breaker has gone from one state to another.

    Args:
        before, after: "closed", "open", "half_open", "recovering" or "forced_open".
        reason: for people.
    """

    name: str
    before: str
    after: str
    reason: str


@dataclass(frozen=True, slots=True)
class Permit:
    """The answer to whether a run may begin.

    Args:
        token: of a probe, else empty.
        epoch: when the breaker changed last; the outcome of the run counts only until the next change.
        wait_seconds: where it may not begin, until it should ask again.
    """

    is_granted: bool
    token: str = ""
    epoch: str = "0"
    wait_seconds: float = 0.0
    change: Change | None = None


class BreakerStore:
    """All breakers of a fleet. Safe to share between threads, and to inherit over a fork.

    Args:
        url: redis://, rediss:// or sentinel://.
        prefix: put before every key.
        sentinel_master: name of the primary, with sentinel://.
        clock: counts instead of the server's clock; for tests.

    Attributes:
        outage: what this process knows of a server that is away.

    Every method raises `StateUnavailableError` if the server does not answer.
    """

    def __init__(
        self, url: str, *, prefix: str = "", sentinel_master: str | None = None, clock: Clock | None = None
    ) -> None:
        self._prefix = prefix
        self._address = mask_url(url)
        self._clock = clock
        self.outage = Outage()
        self._client = connect(url, sentinel_master=sentinel_master, timeout_seconds=TIMEOUT_SECONDS)

    def admit(self, breaker: Breaker, name: str, *, lease_seconds: float) -> Permit:
        """Ask whether a run may begin now; if not, it is given a moment of its own to come back.

        Args:
            lease_seconds: the place of a probe that does not renew it is free after this.
        """
        token = secrets.token_hex(8)
        verdict, epoch, ms, before, after = self._run(
            "admit",
            name,
            token,
            breaker.probes,
            _ms(lease_seconds),
            _ms(breaker.recovery_seconds),
            RETURNS_PER_SECOND,
            _ms(FORCED_WAIT_SECONDS),
            _remembered_ms(breaker),
        )
        seconds = max(0.0, int(ms) / 1000)
        return Permit(
            is_granted=verdict != "wait",
            token=token if verdict == "probe" else "",
            epoch=epoch,
            wait_seconds=0.0 if verdict != "wait" else seconds,
            change=Change(name, before, after, f"it was {before} for {seconds:g} s") if after else None,
        )

    def settle(
        self, breaker: Breaker, name: str, permit: Permit, *, is_failure: bool | None, error: str = ""
    ) -> Change | None:
        """Tell how a run has ended, and return what this has changed.

        Args:
            permit: the one that it began with.
            is_failure: None if its end says nothing about what it called.
            error: what kind of failure it was, for people.
        """
        outcome = "nothing" if is_failure is None else "failure" if is_failure else "success"
        answer = self._run(
            "settle",
            name,
            permit.token,
            permit.epoch,
            outcome,
            error,
            breaker.failure_rate,
            breaker.minimum_calls,
            max(1, _ms(breaker.window_seconds / PARTS)),
            PARTS,
            _ms(breaker.open_seconds),
            _ms(breaker.longest_open_seconds),
            breaker.probes,
            _ms(breaker.recovery_seconds),
            _remembered_ms(breaker),
        )
        if not answer:
            return None
        before, after, calls, failures, ms = answer
        if after != "open":
            reason = _succeeded(int(calls))
        elif before == "half_open":
            reason = f"the probe failed with {error}; the next one is in {int(ms) / 1000:g} s"
        else:
            reason = (
                f"{failures} of {calls} calls failed within {breaker.window_seconds:g} s, the last one with "
                f"{error}; the first probe is in {int(ms) / 1000:g} s"
            )
        return Change(name, before, after, reason)

    def renew(self, key: str, *, owner: str, lease_seconds: float) -> bool:
        """Keep the place of a probe that is still running. Return False if it is another one's.

        Args:
            key: the name of the breaker.
            owner: the token of the probe.
        """
        keys, arguments = self._keys(key)[1:2], self._now(owner, _ms(lease_seconds))
        return bool(self._ask(lambda: _script("renew").run(self._client, keys, arguments)))

    def close_thread(self) -> None:
        """Nothing is kept for a thread."""

    def force_open(self, name: str, *, why: str, who: str) -> Change:
        """Open it by hand until it is reset; it survives restarts as far as the server does."""
        before = self._run("force_open", name, why, who)
        return Change(name, before, "forced_open", f"by {who}: {why}")

    def reset(self, name: str, *, who: str) -> Change | None:
        """Close it and forget what it has counted. Return None if nothing was known of it."""
        keys = self._keys(name)
        before = self._ask(lambda: _script("reset").run(self._client, keys, [name]))
        return Change(name, before, "closed", f"reset by {who}") if before else None

    def overview(self) -> list[BreakerState]:
        """Return every known breaker by name: those that are open, or had calls within the last hour."""
        return self._ask(self._read_all)

    def _read_all(self) -> list[BreakerState]:
        client: Any = self._client
        seconds, microseconds = client.time()
        now = seconds + microseconds / 1_000_000 if self._clock is None else self._clock.now().timestamp()
        index = self._keys("")[2]
        names = sorted(client.zrangebyscore(index, now * 1000, "+inf"))
        with client.pipeline(transaction=False) as pipe:
            for name in names:
                state, probes, _ = self._keys(name)
                pipe.hgetall(state)
                pipe.zcount(probes, now * 1000, "+inf")
            answers = pipe.execute()
        pairs = zip(names, answers[::2], answers[1::2], strict=True)
        return [read_state(name, fields, running, now) for name, fields, running in pairs if fields]

    def _keys(self, name: str) -> list[str]:
        breaker = f"{self._prefix}taskyard:breaker:{name}"
        return [breaker, f"{self._prefix}taskyard:breaker-probes:{name}", f"{self._prefix}taskyard:breakers"]

    def _now(self, *arguments: Any) -> list[Any]:
        return ["" if self._clock is None else round(self._clock.now().timestamp() * 1000), *arguments]

    def _run(self, name: str, breaker: str, *arguments: Any) -> Any:
        keys, arguments = self._keys(breaker), tuple(self._now(breaker, *arguments))
        return self._ask(lambda: _script(name).run(self._client, keys, arguments))

    def _ask(self, question: Any) -> Any:
        try:
            return question()
        except RedisError as error:
            verb = "refuses" if isinstance(error, ResponseError) else "does not answer"
            raise StateUnavailableError(
                f"The state store {self._address} {verb}: {mask_url(str(error)).rstrip('.')}. "
                "See `manage.py taskyard doctor`."
            ) from error


def breaker_store(settings: Settings) -> BreakerStore:
    """Return the breakers of a project, one object a process and address.

    Raises:
        ConfigurationError: the state is in the database, which cannot keep breakers.
    """
    if settings.state_url == DATABASE_STATE:
        raise ConfigurationError(
            "Circuit breakers need Redis or Valkey, but STATE_URL is 'django-db'. "
            "Give STATE_URL a redis:// address."
        )
    return _store(settings.effective_state_url, settings.key_prefix, settings.sentinel_master)


def overview(settings: Settings) -> list[BreakerState]:
    """Return the states of all known breakers, by name; none where the state is in the database.

    Raises:
        StateUnavailableError: the state store does not answer.
    """
    return [] if settings.state_url == DATABASE_STATE else breaker_store(settings).overview()


@lru_cache(maxsize=8)
def _store(url: str, prefix: str, sentinel_master: str | None) -> BreakerStore:
    return BreakerStore(url, prefix=prefix, sentinel_master=sentinel_master)


def _script(name: str) -> Any:
    return script(name, "taskyard.breakers")


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _remembered_ms(breaker: Breaker) -> int:
    return _ms(max(REMEMBERED_SECONDS, 2 * breaker.window_seconds))


def _succeeded(probes: int) -> str:
    return "the probe succeeded" if probes == 1 else f"{probes} probes succeeded"
