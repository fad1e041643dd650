"""The history of a torture run, and what it says about the promise. Pure functions: no process, no server."""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.bench.faults import (
    BROKER_KILL_EVERYSEC,
    BROKER_KILLS,
    CHILD_KILL,
    CONNECTION_CUT,
    FREEZE,
    RESTART,
    WORKER_KILL,
    FaultEvent,
)
from tests.bench.publisher import ACKNOWLEDGED, Publication

# Redis documents that `appendfsync everysec` may lose about one second of writes; while a slow fsync is under
# way it delays the write by up to two.
EVERYSEC_WINDOW_SECONDS = 2.0
# A thawed worker may go through what it had fetched for this long before it learns that its lease has ended.
THAW_SECONDS = 2.0

# Why a task ran again. The first group is at-least-once delivery at work; the second must not happen.
WORKER_KILLED, CHILD_KILLED, WORKER_FROZEN = "worker killed", "child killed", "worker frozen past its lease"
WORKER_FORCED = "worker killed after its stop took too long"
LOST_ACK = "acknowledgement lost in the everysec window"
ALLOWED_CAUSES = (WORKER_KILLED, CHILD_KILLED, WORKER_FROZEN, WORKER_FORCED, LOST_ACK)
PUBLISHED_TWICE = "publish interrupted, stored twice"
BROKER_RESTARTED, CUT, STOPPED = "broker restarted", "connection cut", "worker stopped (SIGTERM)"
UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True, order=True)
class Start:
    """One run of a task: when, in which worker's life, in which process."""

    at: float
    number: int
    worker: str
    pid: int


@dataclass(slots=True)
class History:
    """Everything that was recorded.

    Args:
        publications: the publisher's ledger.
        starts: every run.
        received: for each worker, when it took which task.
        faults: what was done to it.
    """

    publications: Sequence[Publication]
    starts: Sequence[Start]
    received: dict[str, list[tuple[float, int]]]
    faults: Sequence[FaultEvent]
    runs: dict[int, list[Start]] = field(init=False)
    _received_at: dict[tuple[str, int], float] = field(init=False)
    # task number -> worker -> when it took the task
    _receipts: dict[int, dict[str, list[float]]] = field(init=False)

    def __post_init__(self) -> None:
        self.runs = defaultdict(list)
        for start in sorted(self.starts):
            self.runs[start.number].append(start)
        self._received_at = {
            (worker, number): at for worker, items in self.received.items() for at, number in reversed(items)
        }

        self._receipts = defaultdict(lambda: defaultdict(list))
        for worker, items in self.received.items():
            for at, number in items:
                self._receipts[number][worker].append(at)

    @property
    def acknowledged(self) -> set[int]:
        """The tasks that the broker has taken."""
        return {n for p in self.publications if p.outcome == ACKNOWLEDGED for n in p.numbers}

    @property
    def uncertain(self) -> set[int]:
        """The tasks whose publish raised: they may run."""
        return {n for p in self.publications if p.outcome != ACKNOWLEDGED for n in p.numbers}

    def failed_without_a_fault(self) -> set[int]:
        """The tasks whose publish raised while the broker and its connections were left alone."""
        failed = [p for p in self.publications if p.outcome != ACKNOWLEDGED and not self._was_interrupted(p)]
        return {n for p in failed for n in p.numbers}

    def never_ran(self) -> set[int]:
        """Acknowledged tasks without a run."""
        return self.acknowledged - self.runs.keys()

    def in_everysec_window(self, numbers: Iterable[int]) -> set[int]:
        """Those whose publish was acknowledged shortly before a broker with `everysec` was killed."""
        kills = [fault.at for fault in self.faults if fault.kind == BROKER_KILL_EVERYSEC]
        ends = {n: p.end for p in self.publications for n in p.numbers}
        return {n for n in numbers if any(0 <= kill - ends[n] <= EVERYSEC_WINDOW_SECONDS for kill in kills)}

    def duplicates(self) -> Counter[str]:
        """Runs beyond the first, by cause."""
        publications = {n: p for p in self.publications for n in p.numbers}
        causes: Counter[str] = Counter()
        for number, runs in self.runs.items():
            for first, second in pairwise(runs):
                causes[self._cause(first, second, publications.get(number))] += 1
        return causes

    def examples(self, cause: str, limit: int = 5) -> list[list[Start]]:
        """Return some tasks with a repeated run of this cause."""
        publications = {n: p for p in self.publications for n in p.numbers}
        found = [
            runs
            for number, runs in self.runs.items()
            if any(self._cause(a, b, publications.get(number)) == cause for a, b in pairwise(runs))
        ]
        return found[:limit]

    def _cause(self, first: Start, second: Start, publication: Publication | None) -> str:
        between = [fault for fault in self.faults if fault.at <= second.at and fault.until >= first.at]
        for fault in between:
            cause = self._process_cause(fault, first, second)
            if cause:
                return cause
        # A cut may make two copies of what was only reserved: look from when either worker took the message.
        since = min(
            first.at, *(self._received_at.get((s.worker, s.number), first.at) for s in (first, second))
        )
        kinds = {fault.kind for fault in self.faults if since <= fault.until and fault.at <= second.at}
        if BROKER_KILL_EVERYSEC in kinds and self._was_just_run(first):
            return LOST_ACK
        if kinds.intersection(BROKER_KILLS):
            return BROKER_RESTARTED
        if CONNECTION_CUT in kinds:
            return CUT
        if any(fault.kind == RESTART and fault.worker == first.worker for fault in between):
            return STOPPED
        if publication is not None and self._was_interrupted(publication):
            return PUBLISHED_TWICE
        return UNEXPLAINED

    def _process_cause(self, fault: FaultEvent, first: Start, second: Start) -> str | None:
        """The cause if the fault hit the process of the first run (or, when it was frozen, of either)."""
        if fault.kind == FREEZE:
            if fault.worker == first.worker:
                return WORKER_FROZEN
            received_at = self._received_at.get((second.worker, second.number), float("inf"))
            # Fetched before, and handed to the consumer only after the thaw.
            had_it = received_at <= fault.until + THAW_SECONDS
            return WORKER_FROZEN if fault.worker == second.worker and had_it else None
        if fault.worker != first.worker or fault.until < first.at:
            return None
        if fault.kind == WORKER_KILL:
            return WORKER_KILLED
        if fault.kind == CHILD_KILL and fault.pid == first.pid:
            return CHILD_KILLED
        if fault.kind == RESTART and fault.was_forced:
            return WORKER_FORCED
        return None

    def _was_just_run(self, start: Start) -> bool:
        return any(
            0 <= fault.at - start.at <= EVERYSEC_WINDOW_SECONDS
            for fault in self.faults
            if fault.kind == BROKER_KILL_EVERYSEC
        )

    def _was_interrupted(self, publication: Publication) -> bool:
        return any(
            fault.kind in (CONNECTION_CUT, *BROKER_KILLS)
            and fault.at <= publication.end
            and fault.until >= publication.begin
            for fault in self.faults
        )

    def recovery_seconds(self) -> dict[str, list[float]]:
        """By kind of fault, from the fault until each task that the process held was with another worker.

        Held: received before, and received by somebody later. What was run and acknowledged before never
        comes back. The end is the start of the run; or, where that worker was hit too before it came to it,
        its receipt, since from then on the next fault counts. Where the broker was killed meanwhile, the time
        counts from its return: no lease may end while its worker cannot renew it.
        """
        seconds: dict[str, list[float]] = defaultdict(list)
        for fault in self.faults:
            if fault.kind in (WORKER_KILL, FREEZE) or (fault.kind == RESTART and fault.was_forced):
                ends = [self._taken_over(number, fault) for number in self._held_by(fault)]
                seconds[fault.kind] += [self._since(fault, end) for end in ends if end is not None]
            elif fault.kind == CHILD_KILL:
                seconds[fault.kind] += self._rerun_after_child_kill(fault)
        return dict(seconds)

    def _held_by(self, fault: FaultEvent) -> list[int]:
        """What the worker had received, without what it gave up when a process of its own was lost."""
        lost_pids = {f.pid for f in self.faults if f.kind == CHILD_KILL and f.at <= fault.at}
        received = dict.fromkeys(n for at, n in self.received.get(fault.worker, []) if at <= fault.at)
        return [
            number
            for number in received
            if not any(run.pid in lost_pids and run.at <= fault.at for run in self.runs.get(number, []))
        ]

    def _since(self, fault: FaultEvent, end: float) -> float:
        returns = [f.until for f in self.faults if f.kind in BROKER_KILLS and fault.at < f.until < end]
        # A worker that was told to stop holds its tasks rightly until it is killed.
        began = fault.until if fault.kind == RESTART else fault.at
        return end - max([began, *returns])

    def _taken_over(self, number: int, fault: FaultEvent) -> float | None:
        """When another worker had the task after the fault; None if none ever had."""
        receipts = [
            (at, worker)
            for worker, items in self._receipts.get(number, {}).items()
            for at in items
            if at > fault.at and worker != fault.worker
        ]
        if not receipts:
            return None
        at, worker = min(receipts)
        return next(
            (run.at for run in self.runs.get(number, []) if run.worker == worker and run.at >= at), at
        )

    def _rerun_after_child_kill(self, fault: FaultEvent) -> list[float]:
        starts = [start for start in self.starts if start.pid == fault.pid and start.at <= fault.at]
        if not starts:
            return []
        later = [run.at for run in self.runs[max(starts).number] if run.at > fault.at]
        return [min(later) - fault.at] if later else []

    def service_gaps(self) -> dict[str, list[float]]:
        """By kind of fault that hits everybody, from the fault to the next start of any task.

        Faults before the first start are left out: the workers were not there yet.
        """
        moments = sorted(start.at for start in self.starts)
        gaps: dict[str, list[float]] = defaultdict(list)
        for fault in self.faults:
            if fault.kind in (CONNECTION_CUT, *BROKER_KILLS) and moments and fault.at > moments[0]:
                place = bisect.bisect_right(moments, fault.until)
                if place < len(moments):
                    gaps[fault.kind].append(moments[place] - fault.at)
        return dict(gaps)
