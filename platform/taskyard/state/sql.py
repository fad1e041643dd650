"""The statements of the database state store: one an operation, so that each is atomic by itself.

Times are taken once a statement (`excluded."since"`): the server's clock goes on while a statement runs.
"""

# ruff: noqa: S608 - what is put in are names of tables and columns, and fixed expressions
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from taskyard.clock import Clock
from taskyard.models import Claim, Register

CLAIMS, REGISTERS = f'"{Claim._meta.db_table}"', f'"{Register._meta.db_table}"'
COLUMNS = ("state", "owner", "fence", "holder", "since", "expires_at", "duplicates", "result")
_LISTED = ", ".join(f'"{column}"' for column in ("key", *COLUMNS))


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one kind of database says the same.

    Args:
        now, later: the moment, and `%(seconds)s` after it.
        fence: the moment as a number of microseconds.
        greatest: of two numbers.
        begins: whether a key begins with `%(prefix)s`, in this case and not another one.
        skip_locked: what leaves out rows that somebody else is writing.
        has_clock: whether the server has one; else `moments` gives it this machine's.
    """

    now: str
    later: str
    fence: str
    greatest: str
    begins: str
    skip_locked: str
    has_clock: bool


POSTGRESQL = Dialect(
    now="clock_timestamp()",
    later="clock_timestamp() + make_interval(secs => %(seconds)s)",
    fence="(extract(epoch from clock_timestamp()) * 1000000)::bigint",
    greatest="greatest",
    begins='starts_with("key", %(prefix)s)',
    skip_locked="FOR UPDATE SKIP LOCKED",
    has_clock=True,
)
SQLITE = Dialect(
    now="%(now)s",
    later="%(later)s",
    fence="%(microseconds)s",
    greatest="max",
    begins='substr("key", 1, length(%(prefix)s)) = %(prefix)s',
    skip_locked="",
    has_clock=False,
)
DIALECTS: Mapping[str, Dialect] = {"postgresql": POSTGRESQL, "sqlite": SQLITE}


def moments(connection: Any, dialect: Dialect, clock: Clock, seconds: float) -> dict[str, Any]:
    """Return the arguments of `now`, `later` and `fence`."""
    if dialect.has_clock:
        return {"seconds": float(seconds)}
    now = clock.now()
    later = now + timedelta(seconds=seconds)
    adapt = connection.ops.adapt_datetimefield_value
    return {"now": adapt(now), "later": adapt(later), "microseconds": round(now.timestamp() * 1_000_000)}


def acquire(dialect: Dialect) -> str:
    """Take a free claim, prolong one's own, or count a duplicate; gives the claim as it is then.

    Arguments: key, owner, holder, and the moments of the lease.
    """
    own = """(c."state" = 'held' AND c."owner" = excluded."owner")"""
    free = """(c."state" = 'free' OR c."expires_at" <= excluded."since")"""
    higher = f'{dialect.greatest}(c."fence" + 1, excluded."fence")'
    # For each column what it becomes if the claim is one's own, if it is free, and else.
    becomes = {
        "state": ("'held'", "'held'", 'c."state"'),
        "owner": ('excluded."owner"', 'excluded."owner"', 'c."owner"'),
        "fence": ('c."fence"', higher, 'c."fence"'),
        "holder": ('excluded."holder"', 'excluded."holder"', 'c."holder"'),
        "since": ('c."since"', 'excluded."since"', 'c."since"'),
        "expires_at": ('excluded."expires_at"', 'excluded."expires_at"', 'c."expires_at"'),
        "duplicates": ('c."duplicates"', "0", 'c."duplicates" + 1'),
        "result": ("NULL", "NULL", 'c."result"'),
    }
    changes = ", ".join(
        f'"{column}" = CASE WHEN {own} THEN {if_own} WHEN {free} THEN {if_free} ELSE {otherwise} END'
        for column, (if_own, if_free, otherwise) in becomes.items()
    )
    return (
        f"INSERT INTO {CLAIMS} AS c ({_LISTED}) VALUES (%(key)s, 'held', %(owner)s, {dialect.fence},"
        f" %(holder)s, {dialect.now}, {dialect.later}, 0, NULL)"
        f' ON CONFLICT ("key") DO UPDATE SET {changes} RETURNING {_LISTED}, {dialect.now}'
    )


def renew(dialect: Dialect) -> str:
    """Arguments: key, owner, and the moments of the lease."""
    return (
        f'UPDATE {CLAIMS} SET "expires_at" = {dialect.later}'
        ' WHERE "key" = %(key)s AND "owner" = %(owner)s AND "state" = \'held\''
    )


def complete(dialect: Dialect) -> str:
    """Arguments: key, owner, result, and the moments of the memory."""
    return (
        f'UPDATE {CLAIMS} SET "state" = \'done\', "result" = %(result)s, "expires_at" = {dialect.later}'
        ' WHERE "key" = %(key)s AND "owner" = %(owner)s'
        f' AND ("state" = \'held\' OR ("state" = \'done\' AND "expires_at" > {dialect.now}))'
    )


def release(dialect: Dialect) -> str:
    """Arguments: key, owner. Again by the same owner it changes nothing, and says the same."""
    return (
        f'UPDATE {CLAIMS} SET "state" = \'free\', "expires_at" = {dialect.now}'
        ' WHERE "key" = %(key)s AND "owner" = %(owner)s AND "state" IN (\'held\', \'free\')'
    )


def force_release(dialect: Dialect) -> str:
    """Arguments: key, and state and fence of the claim that was seen."""
    return (
        f'UPDATE {CLAIMS} SET "state" = \'free\', "owner" = \'\', "expires_at" = {dialect.now}'
        ' WHERE "key" = %(key)s AND "state" = %(state)s AND "fence" = %(fence)s'
    )


def read(dialect: Dialect) -> str:
    """Arguments: key, and the moments."""
    return f'SELECT {_LISTED}, {dialect.now} FROM {CLAIMS} WHERE "key" = %(key)s AND {_is_known(dialect)}'


def find(dialect: Dialect) -> str:
    """Arguments: prefix, state and or_state, limit, and the moments."""
    return (
        f"SELECT {_LISTED}, {dialect.now} FROM {CLAIMS} WHERE {dialect.begins} AND {_is_known(dialect)}"
        ' AND "state" IN (%(state)s, %(or_state)s) ORDER BY "since", "key" LIMIT %(limit)s'
    )


def _is_known(dialect: Dialect) -> str:
    return f'"state" <> \'free\' AND "expires_at" > {dialect.now}'


def put_latest(dialect: Dialect) -> str:
    """Arguments: key, value, and the moments of the memory. Gives the value before this one."""
    return (
        f'INSERT INTO {REGISTERS} AS r ("key", "value", "before", "expires_at")'
        f" VALUES (%(key)s, %(value)s, NULL, {dialect.later})"
        f' ON CONFLICT ("key") DO UPDATE SET "before" = CASE WHEN r."expires_at" <= {dialect.now} THEN NULL'
        ' WHEN r."value" = excluded."value" THEN r."before" ELSE r."value" END,'
        ' "value" = excluded."value", "expires_at" = excluded."expires_at" RETURNING "before"'
    )


def read_latest(dialect: Dialect) -> str:
    """Arguments: key, and the moments."""
    return f'SELECT "value" FROM {REGISTERS} WHERE "key" = %(key)s AND "expires_at" > {dialect.now}'


def clear_latest(dialect: Dialect) -> str:
    """Arguments: key, value, and the moments."""
    return (
        f'DELETE FROM {REGISTERS} WHERE "key" = %(key)s AND "value" = %(value)s'
        f' AND "expires_at" > {dialect.now}'
    )


def purge(dialect: Dialect, table: str) -> str:
    """Delete rows that nobody asks for any more. Arguments: limit, and the moments, with `later` in the past.

    The condition stands twice: a row that is taken again between the two is not deleted.
    """
    ended = f'"expires_at" < {dialect.later}'
    return (
        f'DELETE FROM {table} WHERE {ended} AND "key" IN (SELECT "key" FROM {table} WHERE {ended}'
        f' ORDER BY "expires_at" LIMIT %(limit)s {dialect.skip_locked})'
    )
