"""Work of the store beside a transaction that the caller has open.

A row that the caller's transaction could still roll back is no dead letter, and a message that is published
before its row is committed can be sent twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from django.db import connections, transaction

T = TypeVar("T")


def is_open(using: str) -> bool:
    """Return whether this thread has a transaction open; that around a Django `TestCase` does not count."""
    return any(not getattr(block, "_from_testcase", False) for block in connections[using].atomic_blocks)


def after_commit(call: Callable[[], None], *, using: str) -> None:
    """Call it now, or when the open transaction has committed."""
    if is_open(using):
        transaction.on_commit(call, using=using)
    else:
        call()


def beside(write: Callable[[], T], *, using: str) -> T:
    """Write on a connection whose commit is ours: this thread's, or another one's if a transaction is open.

    SQLite has one writer at a time, which the open transaction may be: there the row is part of it.
    """
    if not is_open(using) or connections[using].vendor == "sqlite":
        return write()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(write())
        except BaseException as error:
            errors.append(error)
        finally:
            connections[using].close()

    thread = threading.Thread(target=run, name="taskyard-dead-letter")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
