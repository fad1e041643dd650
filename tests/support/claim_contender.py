"""A process whose threads contend for one claim; the rounds are numbered by a witness outside of the store.

    python -m tests.support.claim_contender SPEC KEY ROUNDS WITNESS THREADS

Whoever is granted the claim takes the number of the round from a file, without any lock: reads it, lets
others run, and writes the next one. Two holders at once would take the same number. The process prints what
its threads have won, and how often they were refused, as JSON.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import struct
import sys
import threading
from pathlib import Path
from typing import Any

# Longer than the test: no lease may end in the middle of a round.
LEASE_SECONDS = 120.0
# A refused thread waits about so long, or 50 of them would leave the holder no time.
PAUSE_SECONDS = 0.02


class Witness:
    """A number in a file that all processes share, and that nothing protects."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 8)

    def read(self) -> int:
        return struct.unpack("<q", self._memory[:8])[0]

    def take(self) -> int:
        """Return the number, and add one to it."""
        number = self.read()
        os.sched_yield()
        self._memory[:8] = struct.pack("<q", number + 1)
        return number


class Contest:
    """The threads of one process."""

    def __init__(self, store: Any, key: str, rounds: int, witness: Witness) -> None:
        self.store, self.key, self.rounds, self.witness = store, key, rounds, witness
        self.wins: list[tuple[int, int]] = []
        self.refusals = 0
        self.errors: list[str] = []

    def contend(self, name: str) -> None:
        pause = threading.Event()
        wins, refusals = 0, 0
        try:
            while self.witness.read() < self.rounds:
                owner = f"{name}:{wins}"
                attempt = self.store.acquire(self.key, owner=owner, holder={}, lease_seconds=LEASE_SECONDS)
                if not attempt.is_granted:
                    refusals += 1
                    pause.wait(random.uniform(0, PAUSE_SECONDS))
                    continue
                self.wins.append((self.witness.take(), attempt.claim.fence))
                wins += 1
                if not self.store.release(self.key, owner=owner):
                    self.errors.append(f"{owner} could not release")
        except Exception as error:
            self.errors.append(repr(error))
        finally:
            self.refusals += refusals
            self.store.close_thread()

    def run(self, threads: int) -> None:
        running = [
            threading.Thread(target=self.contend, args=(f"{os.getpid()}:{number}",))
            for number in range(threads)
        ]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()


def main(spec: str, key: str, rounds: str, witness: str, threads: str) -> None:
    from contextlib import nullcontext

    from tests.support.state_stores import StoreSpec, database

    where = StoreSpec(**json.loads(spec))
    if where.is_database:
        import django

        django.setup()
    with database(where) if where.is_database else nullcontext():
        contest = Contest(where.make(), key, int(rounds), Witness(Path(witness)))
        contest.run(int(threads))
    json.dump({"wins": contest.wins, "refusals": contest.refusals, "errors": contest.errors}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
