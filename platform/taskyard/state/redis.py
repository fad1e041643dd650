"""Claims, leases and registers on Redis or Valkey: one hash a key, one round trip an operation.

Nothing here is per connection, and only the server's clock counts. The keys are listed in
`platform/docs/reference/redis-keys.md`.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from redis.exceptions import AuthenticationError, RedisError, ResponseError

from taskyard.clock import SYSTEM_CLOCK, Clock
from taskyard.errors import StateUnavailableError
from taskyard.masking import mask_url
from taskyard.state.interface import LATE_SECONDS, Attempt, Claim
from taskyard.state.keys import stored_key, stored_prefix
from taskyard.state.redis_client import connect
from taskyard.state.values import from_json, to_json
from taskyard.transport.scripts import script

CLAIM = "taskyard:claim:"
LATEST = "taskyard:latest:"
FENCE = "taskyard:fence"
HELD = "taskyard:held"
# How long an owner can repeat a release whose answer was lost.
RELEASED_MS = 60_000
LATE_MS = round(LATE_SECONDS * 1000)
PAGE = 500
_GLOB = str.maketrans({character: f"\\{character}" for character in "*?[]^-\\"})


class RedisStore:
    """State on one Redis or Valkey server, or on the primary that Sentinels name.

    Safe to share between threads, and to inherit over a fork. The claims are as durable as the server: with
    `appendonly no` a restart frees them all.

    Args:
        url: redis://, rediss:// or sentinel://.
        prefix: put before every key.
        sentinel_master: name of the primary, with sentinel://.
        timeout_seconds: for connecting, and for each answer.
        clock: of this process, for when it asked.
    """

    name = "redis"

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "",
        sentinel_master: str | None = None,
        timeout_seconds: float = 2.0,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._prefix = prefix
        self._fence, self._held = prefix + FENCE, prefix + HELD
        self._address = mask_url(url)
        self._client = connect(url, sentinel_master=sentinel_master, timeout_seconds=timeout_seconds)

    def acquire(self, key: str, *, owner: str, holder: Mapping[str, Any], lease_seconds: float) -> Attempt:
        key = stored_key(key)
        known = dict(holder)
        text = to_json(known, what=f"The holder of the claim {key!r}")
        keys = (self._claim_key(key), self._fence, self._held)
        arguments = (owner, _microseconds(lease_seconds), text, LATE_MS, key)
        asked_at = self._clock.monotonic()
        granted, now, *found = self._run("acquire", keys, *arguments)
        if not granted:
            return Attempt(False, _claim(key, found, now))
        fence, since, duplicates = map(int, found)
        claim = Claim(
            key, "held", owner, fence, known, since / 1e6, lease_seconds, duplicates, asked_at=asked_at
        )
        return Attempt(True, claim)

    def renew(self, key: str, *, owner: str, lease_seconds: float) -> bool:
        return self._settle("renew", key, owner, _microseconds(lease_seconds), LATE_MS)

    def complete(self, key: str, *, owner: str, result: Any, remember_seconds: float) -> bool:
        text = to_json(result, what=f"The result of the claim {key!r}")
        return self._settle("complete", key, owner, text, _microseconds(remember_seconds))

    def release(self, key: str, *, owner: str) -> bool:
        return self._settle("release", key, owner, RELEASED_MS)

    def read(self, key: str) -> Claim | None:
        key = stored_key(key)
        now, pairs = self._run("read", [self._claim_key(key)])
        return _known(key, pairs, now)

    def force_release(self, key: str) -> Claim | None:
        key = stored_key(key)
        now, *pairs = self._run("force_release", (self._claim_key(key), self._held), key)
        return _known(key, pairs, now)

    def find(self, prefix: str, *, state: str | None = None, limit: int = 1000) -> list[Claim]:
        """Return the claims whose keys begin so, oldest first, at most `limit`; "held" or "done" ones only.

        Held ones are listed apart. For others it walks over all the keys of the server, a page at a time: for
        people, not in the way of tasks.
        """
        begins = stored_prefix(prefix)
        keys = self._ask(lambda: self._held_keys(begins) if state == "held" else self._all_keys(begins))
        # The server may give a key twice while its table grows.
        oldest = heapq.nsmallest(2 * limit, self._ages(keys, state or ""))
        names = list(dict.fromkeys(key for _, key in oldest))[:limit]
        return [claim for claim in self._read_all(names) if state in (None, claim.state)]

    def put_latest(self, key: str, value: str, *, remember_seconds: float) -> str | None:
        arguments = (value, math.ceil(remember_seconds * 1000))
        return self._run("put_latest", [self._latest_key(key)], *arguments) or None

    def read_latest(self, key: str) -> str | None:
        name = self._latest_key(key)
        return self._ask(lambda: self._client.hget(name, "value"))

    def clear_latest(self, key: str, value: str) -> bool:
        return bool(self._run("clear_latest", [self._latest_key(key)], value))

    def ping(self) -> None:
        self._ask(self._client.ping)

    def close_thread(self) -> None:
        """Nothing is kept for a thread."""

    def _claim_key(self, key: str) -> str:
        return f"{self._prefix}{CLAIM}{key}"

    def _latest_key(self, key: str) -> str:
        return f"{self._prefix}{LATEST}{stored_key(key)}"

    def _all_keys(self, prefix: str) -> Iterator[str]:
        start = self._claim_key("")
        for name in self._client.scan_iter(f"{(start + prefix).translate(_GLOB)}*", count=PAGE):
            yield name.removeprefix(start)

    def _held_keys(self, prefix: str) -> Iterator[str]:
        held: Any = self._client.zrange(self._held, 0, -1)
        return (key for key in held if key.startswith(prefix))

    def _ages(self, keys: Iterator[str], state: str) -> Iterator[tuple[int, str]]:
        """Give when each claim was taken, and its key."""
        while page := self._ask(lambda: list(islice(keys, PAGE))):
            ages = self._run("ages", [self._claim_key(key) for key in page], state)
            yield from ((int(age), key) for age, key in zip(ages, page, strict=True) if age)

    def _read_all(self, keys: Sequence[str]) -> Iterator[Claim]:
        for start in range(0, len(keys), PAGE):
            page = keys[start : start + PAGE]
            now, *found = self._run("read", [self._claim_key(key) for key in page])
            for key, pairs in zip(page, found, strict=True):
                if claim := _known(key, pairs, now):
                    yield claim

    def _settle(self, name: str, key: str, *arguments: Any) -> bool:
        """Run a script that changes a claim if it is the owner's; return whether it is."""
        key = stored_key(key)
        return bool(self._run(name, (self._claim_key(key), self._held), *arguments, key))

    def _run(self, name: str, keys: Sequence[str], *arguments: Any) -> Any:
        return self._ask(lambda: script(name, "taskyard.state").run(self._client, keys, arguments))

    def _ask(self, question: Any) -> Any:
        try:
            return question()
        except RedisError as error:
            verb = "refuses" if isinstance(error, (ResponseError, AuthenticationError)) else "does not answer"
            raise StateUnavailableError(
                f"The state store {self._address} {verb}: {mask_url(str(error)).rstrip('.')}. "
                "See `manage.py taskyard doctor`."
            ) from error


def _microseconds(seconds: float) -> int:
    return max(1, round(seconds * 1_000_000))


def _known(key: str, pairs: Sequence[str], now: str) -> Claim | None:
    """Return the claim, or None if it is free by now."""
    if not pairs:
        return None
    claim = _claim(key, pairs, now)
    return claim if claim.state in ("held", "done") and claim.expires_in_seconds > 0 else None


def _claim(key: str, pairs: Sequence[str], now: str) -> Claim:
    fields: dict[str, Any] = dict(zip(pairs[::2], pairs[1::2], strict=True))
    return Claim(
        key=key,
        state=fields["state"],
        owner=fields["owner"],
        fence=int(fields["fence"]),
        holder=from_json(fields["holder"]),
        since=int(fields["since"]) / 1_000_000,
        expires_in_seconds=(int(fields["ends"]) - int(now)) / 1_000_000,
        duplicates=int(fields["duplicates"]),
        result=from_json(fields.get("result")),
    )
