"""Claims, leases and registers in the Django database, where there is no Redis: PostgreSQL or SQLite."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.db import router

from taskyard import models
from taskyard.clock import SYSTEM_CLOCK, Clock
from taskyard.errors import StateUnavailableError
from taskyard.state import sql
from taskyard.state.database_session import DatabaseSession
from taskyard.state.interface import LATE_SECONDS, Attempt, Claim
from taskyard.state.keys import stored_key, stored_prefix
from taskyard.state.values import from_json, to_json

# One in so many writes also deletes up to so many rows that have ended.
PURGE_EVERY = 500
PURGE_ROWS = 2000
FORCE_TRIES = 10


class DatabaseStore:
    """State in two tables; each operation is one statement, committed by itself.

    On PostgreSQL it is committed also inside the caller's transaction, over a connection of its own; on
    SQLite it is refused there. The clock is PostgreSQL's; on SQLite, which has no server, the machine's.

    Args:
        using: alias of the database; the one that Django writes the table to when unset.
        clock: of this machine.
        timeout_seconds: after this nothing is tried again; how long one try takes is up to the options of the
            connection (`connect_timeout`, SQLite's `timeout`).
        purge_every: one in so many writes also deletes what has ended.
    """

    name = "database"

    def __init__(
        self,
        *,
        using: str | None = None,
        clock: Clock = SYSTEM_CLOCK,
        timeout_seconds: float = 2.0,
        purge_every: int = PURGE_EVERY,
    ) -> None:
        alias = using or router.db_for_write(models.Claim)
        self._session = DatabaseSession(alias, clock=clock, timeout_seconds=timeout_seconds)
        self._clock = clock
        self._purge_every = purge_every
        # Not from the start: a pool process may end before it has done so many.
        self._writes = itertools.count(random.randrange(purge_every))  # noqa: S311 - no secret

    def acquire(self, key: str, *, owner: str, holder: Mapping[str, Any], lease_seconds: float) -> Attempt:
        key = stored_key(key)
        text = to_json(dict(holder), what=f"The holder of the claim {key!r}")
        asked_at = self._clock.monotonic()
        (row,) = self._rows(sql.acquire, lease_seconds, key=key, owner=owner, holder=text)
        claim = replace(_claim(row), asked_at=asked_at)
        self._purge_sometimes()
        return Attempt(claim.state == "held" and claim.owner == owner, claim)

    def renew(self, key: str, *, owner: str, lease_seconds: float) -> bool:
        return self._count(sql.renew, lease_seconds, key=stored_key(key), owner=owner) == 1

    def complete(self, key: str, *, owner: str, result: Any, remember_seconds: float) -> bool:
        key = stored_key(key)
        text = to_json(result, what=f"The result of the claim {key!r}")
        return self._count(sql.complete, remember_seconds, key=key, owner=owner, result=text) == 1

    def release(self, key: str, *, owner: str) -> bool:
        return self._count(sql.release, key=stored_key(key), owner=owner) == 1

    def read(self, key: str) -> Claim | None:
        rows = self._rows(sql.read, key=stored_key(key))
        return _claim(rows[0]) if rows else None

    def force_release(self, key: str) -> Claim | None:
        for _ in range(FORCE_TRIES):
            seen = self.read(key)
            if seen is None:
                return None
            if self._count(sql.force_release, key=seen.key, state=seen.state, fence=seen.fence) == 1:
                return seen
        raise StateUnavailableError(
            f"The claim {key!r} was taken again each time that it was to be freed. Try again."
        )

    def find(self, prefix: str, *, state: str | None = None, limit: int = 1000) -> list[Claim]:
        begins, or_state = stored_prefix(prefix), state or "done"
        rows = self._rows(sql.find, prefix=begins, state=state or "held", or_state=or_state, limit=limit)
        return [_claim(row) for row in rows]

    def put_latest(self, key: str, value: str, *, remember_seconds: float) -> str | None:
        ((before,),) = self._rows(sql.put_latest, remember_seconds, key=stored_key(key), value=value)
        self._purge_sometimes()
        return before

    def read_latest(self, key: str) -> str | None:
        rows = self._rows(sql.read_latest, key=stored_key(key))
        return rows[0][0] if rows else None

    def clear_latest(self, key: str, value: str) -> bool:
        return self._count(sql.clear_latest, key=stored_key(key), value=value) == 1

    def ping(self) -> None:
        self.read("ping")

    def close_thread(self) -> None:
        self._session.close()

    def purge(self, *, limit: int = PURGE_ROWS) -> int:
        """Delete claims and registers that have ended for good, at most `limit` of each. Return how many."""
        return sum(
            self._count(partial(sql.purge, table=table), -LATE_SECONDS, limit=limit)
            for table in (sql.CLAIMS, sql.REGISTERS)
        )

    def _purge_sometimes(self) -> None:
        if next(self._writes) % self._purge_every == 0:
            # The claim is taken already; what is left over is deleted the next time.
            with suppress(StateUnavailableError):
                self.purge()

    def _rows(self, statement: Any, seconds: float = 0.0, **arguments: Any) -> Sequence[Any]:
        return self._session.rows(*self._prepared(statement, seconds, arguments))

    def _count(self, statement: Any, seconds: float = 0.0, **arguments: Any) -> int:
        return self._session.count(*self._prepared(statement, seconds, arguments))

    def _prepared(
        self, statement: Any, seconds: float, arguments: dict[str, Any]
    ) -> tuple[str, dict[str, Any]]:
        dialect = self._session.dialect
        moments = sql.moments(self._session.connection, dialect, self._clock, seconds)
        return statement(dialect), {**arguments, **moments}


def _claim(row: Sequence[Any]) -> Claim:
    key, state, owner, fence, holder, since, expires_at, duplicates, result, now = row
    return Claim(
        key=key,
        state=state,
        owner=owner,
        fence=fence,
        holder=from_json(holder),
        since=_moment(since).timestamp(),
        expires_in_seconds=(_moment(expires_at) - _moment(now)).total_seconds(),
        duplicates=duplicates,
        result=from_json(result),
    )


def _moment(value: datetime | str) -> datetime:
    """Return the time that a column holds; SQLite gives it without its zone, which is UTC."""
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
