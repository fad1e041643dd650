"""A state store in memory, for tests of what uses one; held to the contract suite as the real ones are."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from taskyard.clock import Clock
from taskyard.errors import StateUnavailableError
from taskyard.state import Attempt, Claim
from taskyard.state.keys import stored_key, stored_prefix
from taskyard.state.values import to_json


@dataclass
class Entry:
    """What is kept of a key: the claim as it was answered last, and when it ends by the store's clock."""

    claim: Claim
    ends_at: float
    # The last owner that has freed it, who may ask again.
    released_by: str = ""


class MemoryStore:
    """Claims and registers of one process.

    Args:
        clock: the store's own time.
    """

    name = "memory"

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.calls: list[str] = []
        self._away_for: dict[str, int] = {}
        self._entries: dict[str, Entry] = {}
        self._latest: dict[str, tuple[str, str | None, float]] = {}
        self._fence = 0
        self._lock = threading.RLock()

    def go_away(self, *operations: str, times: int = 1_000_000) -> None:
        """Fail these operations (all, without any) so many times."""
        for operation in operations or ("acquire", "renew", "complete", "release"):
            self._away_for[operation] = times

    def come_back(self) -> None:
        self._away_for.clear()

    def acquire(self, key: str, *, owner: str, holder: Mapping[str, Any], lease_seconds: float) -> Attempt:
        with self._asked("acquire"):
            key, now = stored_key(key), self._now()
            entry = self._entries.get(key)
            held = self._held_by(key, owner)
            is_own = held is not None and held.claim.state == "held"
            if entry is not None and not is_own and not self._is_free(entry):
                entry.claim = replace(entry.claim, duplicates=entry.claim.duplicates + 1)
                return Attempt(False, self._shown(entry))
            if entry is None or not is_own:
                self._fence += 1
                entry = Entry(Claim(key, "held", owner, self._fence, since=now), now)
                self._entries[key] = entry
            entry.claim = replace(entry.claim, holder=json.loads(json.dumps(dict(holder))))
            entry.ends_at = now + lease_seconds
            return Attempt(True, self._shown(entry))

    def renew(self, key: str, *, owner: str, lease_seconds: float) -> bool:
        with self._asked("renew"):
            entry = self._held_by(key, owner)
            if entry is None or entry.claim.state != "held":
                return False
            entry.ends_at = self._now() + lease_seconds
            return True

    def complete(self, key: str, *, owner: str, result: Any, remember_seconds: float) -> bool:
        with self._asked("complete"):
            text = to_json(result, what="The result")
            entry = self._held_by(key, owner)
            if entry is None:
                return False
            entry.claim = replace(entry.claim, state="done", result=json.loads(text))
            entry.ends_at = self._now() + remember_seconds
            return True

    def release(self, key: str, *, owner: str) -> bool:
        with self._asked("release"):
            entry = self._entries.get(stored_key(key))
            if entry is None or entry.claim.owner != owner or entry.claim.state != "held":
                return False
            entry.released_by = owner
            return True

    def read(self, key: str) -> Claim | None:
        with self._asked("read"):
            entry = self._entries.get(stored_key(key))
            return None if entry is None or self._is_free(entry) else self._shown(entry)

    def force_release(self, key: str) -> Claim | None:
        with self._asked("force_release"):
            found = self.read(key)
            self._entries.pop(stored_key(key), None)
            return found

    def find(self, prefix: str, *, state: str | None = None, limit: int = 1000) -> list[Claim]:
        with self._asked("find"):
            found = [
                self._shown(entry)
                for key, entry in self._entries.items()
                if key.startswith(stored_prefix(prefix))
                and not self._is_free(entry)
                and state in (None, entry.claim.state)
            ]
            return sorted(found, key=lambda claim: (claim.since, claim.key))[:limit]

    def put_latest(self, key: str, value: str, *, remember_seconds: float) -> str | None:
        with self._asked("put_latest"):
            current = self.read_latest(key)
            before = self._latest[stored_key(key)][1] if current == value else current
            self._latest[stored_key(key)] = (value, before, self._now() + remember_seconds)
            return before

    def read_latest(self, key: str) -> str | None:
        with self._asked("read_latest"):
            value, _, ends_at = self._latest.get(stored_key(key), (None, None, 0.0))
            return value if ends_at > self._now() else None

    def clear_latest(self, key: str, value: str) -> bool:
        with self._asked("clear_latest"):
            if self.read_latest(key) != value:
                return False
            del self._latest[stored_key(key)]
            return True

    def ping(self) -> None:
        with self._asked("ping"):
            return

    def close_thread(self) -> None:
        """Nothing is kept for a thread."""

    def _asked(self, operation: str) -> threading.RLock:
        self.calls.append(operation)
        if self._away_for.get(operation, 0) > 0:
            self._away_for[operation] -= 1
            raise StateUnavailableError("The state store memory does not answer: planned.")
        return self._lock

    def _now(self) -> float:
        return self.clock.now().timestamp()

    def _held_by(self, key: str, owner: str) -> Entry | None:
        entry = self._entries.get(stored_key(key))
        return None if entry is None or entry.claim.owner != owner or entry.released_by else entry

    def _is_free(self, entry: Entry) -> bool:
        return bool(entry.released_by) or entry.ends_at <= self._now()

    def _shown(self, entry: Entry) -> Claim:
        return replace(entry.claim, expires_in_seconds=entry.ends_at - self._now())
