"""What a process does with a state store while a test kills, freezes or forks it.

    python -m tests.support.state_scenarios SCENARIO SPEC KEY LEASE_SECONDS

A scenario says a line when it is so far, and goes on with a line from the test.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import nullcontext

from taskyard.state import StateStore, held
from tests.support.state_stores import StoreSpec, database
from tests.support.waiting import wait_until


def say(**values: object) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def hold(store: StateStore, key: str, lease_seconds: float) -> None:
    """Hold a claim until the test says so; say whether it is lost at once, and as the store knows it."""
    claim = store.acquire(key, owner="process", holder={}, lease_seconds=lease_seconds).claim
    with held(store, claim, lease_seconds=lease_seconds) as lease:
        say(fence=claim.fence, threads=threading.active_count())
        sys.stdin.readline()
        at_once = lease.is_lost
        sys.stdin.readline()
        say(
            lost_at_once=at_once,
            lost=lease.is_lost,
            completed=store.complete(key, owner="process", result=1, remember_seconds=60),
        )


def leave(store: StateStore, key: str, lease_seconds: float) -> None:
    """End without leaving the block, while the thread renews."""
    claim = store.acquire(key, owner="process", holder={}, lease_seconds=lease_seconds).claim
    block = held(store, claim, lease_seconds=lease_seconds)
    lease = block.__enter__()
    wait_until(lambda: store.read(key), timeout_seconds=5, what="the claim is held")
    say(lost=lease.is_lost)


def fork(store: StateStore, key: str, lease_seconds: float) -> None:
    """Hold a claim in a process and another one in its forked child, both over the same store object."""
    claim = store.acquire(key, owner="process", holder={}, lease_seconds=lease_seconds).claim
    with held(store, claim, lease_seconds=lease_seconds) as lease:
        pid = os.fork()
        if pid == 0:
            _hold_in_child(store, f"{key} child", lease_seconds)
            os._exit(0)
        mixed = _ask_often(store, key, "process")
        wait_until(lambda: os.waitpid(pid, os.WNOHANG)[0], timeout_seconds=30, what="the child ends")
        say(who="parent", lost=lease.is_lost, mixed=mixed)


def _hold_in_child(store: StateStore, key: str, lease_seconds: float) -> None:
    claim = store.acquire(key, owner="child", holder={}, lease_seconds=lease_seconds).claim
    with held(store, claim, lease_seconds=lease_seconds) as lease:
        mixed = _ask_often(store, key, "child")
        # longer than the lease: something renews it here too
        pause = threading.Event()
        pause.wait(3 * lease_seconds)
        found = store.read(key)
        say(who="child", lost=lease.is_lost, mixed=mixed, held=found is not None and found.owner == "child")


def _ask_often(store: StateStore, key: str, owner: str) -> int:
    """Return how many answers were somebody else's."""
    answers = [store.read(key) for _ in range(300)]
    return sum(answer is None or (answer.key, answer.owner) != (key, owner) for answer in answers)


def main(scenario: str, spec: str, key: str, lease_seconds: str) -> None:
    where = StoreSpec(**json.loads(spec))
    if where.is_database:
        import django

        django.setup()
    with database(where) if where.is_database else nullcontext():
        globals()[scenario](where.make(), key, float(lease_seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
