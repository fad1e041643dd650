"""Whether the promise held: the numbers of a run, and every way in which it fell short."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.bench.faults import STOP_PATIENCE_SECONDS, WORKER_KILL
from tests.bench.fleet import UnaskedExit
from tests.bench.history import ALLOWED_CAUSES, History
from tests.bench.summary import percentile

RECOVERY_MARGIN_SECONDS = 5.0


@dataclass(slots=True, kw_only=True)
class Leftovers:
    """What was where when the run ended.

    Args:
        waiting, held, dead: task numbers in the queue's lists, leased or delayed, set aside on the broker.
        held_keys: how many tasks in which key.
        dead_letters: task numbers in the dead letter store, by reason.
        effects: number of applied effects of the idempotent task; None when another task ran.
    """

    waiting: set[int] = field(default_factory=set)
    held: set[int] = field(default_factory=set)
    dead: set[int] = field(default_factory=set)
    held_keys: dict[str, int] = field(default_factory=dict)
    dead_letters: dict[str, list[int]] = field(default_factory=dict)
    effects: set[int] | None = None

    @property
    def everywhere(self) -> set[int]:
        dead_letters = {number for numbers in self.dead_letters.values() for number in numbers}
        return self.waiting | self.held | self.dead | dead_letters


@dataclass(slots=True, kw_only=True)
class Verdict:
    """The result of a run; `broken` is empty when the promise held."""

    tasks: int
    acknowledged: int
    uncertain: int
    uncertain_that_ran: int
    failed_publishes_without_a_fault: int
    ran: int
    runs: int
    lost: list[int]
    lost_in_everysec_window: list[int]
    stranded: list[int]
    set_aside_without_a_run: list[int]
    dead_letters: dict[str, int]
    faults: dict[str, int]
    timeline: list[dict[str, Any]]
    forced_stops: int
    duplicates: dict[str, int]
    duplicate_examples: dict[str, list[Any]]
    recovery_seconds: dict[str, dict[str, float]]
    service_gap_seconds: dict[str, dict[str, float]]
    unasked_exits: list[dict[str, Any]]
    held_keys: dict[str, int]
    drained: bool
    seconds: float
    broken: list[str] = field(default_factory=list)

    @property
    def held(self) -> bool:
        """Whether the promise held."""
        return not self.broken


def judge(
    history: History,
    leftovers: Leftovers,
    exits: Sequence[UnaskedExit],
    *,
    tasks: int,
    seconds: float,
    drained: bool,
    lease_seconds: float,
) -> Verdict:
    """Return the verdict on a run.

    Args:
        history, leftovers, exits: what was recorded and what is left.
        tasks: how many should have been published.
        seconds: how long the run took.
        drained: whether nothing waited and nothing was held before the deadline.
        lease_seconds: a dead worker's tasks must run again within this and five seconds more.
    """
    never_ran = history.never_ran()
    lost = never_ran - leftovers.everywhere
    in_window = history.in_everysec_window(lost)
    duplicates = history.duplicates()
    recovery = history.recovery_seconds()
    verdict = Verdict(
        tasks=tasks,
        acknowledged=len(history.acknowledged),
        uncertain=len(history.uncertain),
        uncertain_that_ran=len(history.uncertain & history.runs.keys()),
        failed_publishes_without_a_fault=len(history.failed_without_a_fault()),
        ran=len(history.runs),
        runs=len(history.starts),
        lost=sorted(lost - in_window),
        lost_in_everysec_window=sorted(in_window),
        stranded=sorted(never_ran & (leftovers.waiting | leftovers.held)),
        set_aside_without_a_run=sorted(
            (never_ran & leftovers.everywhere) - leftovers.waiting - leftovers.held
        ),
        dead_letters={reason: len(numbers) for reason, numbers in leftovers.dead_letters.items()},
        faults=dict(Counter(fault.kind for fault in history.faults)),
        timeline=[asdict(fault) for fault in history.faults],
        forced_stops=sum(fault.was_forced for fault in history.faults),
        duplicates=dict(duplicates),
        duplicate_examples={
            cause: _plain(history, cause) for cause in duplicates if cause not in ALLOWED_CAUSES
        },
        recovery_seconds={kind: spread(values) for kind, values in recovery.items() if values},
        service_gap_seconds={kind: spread(values) for kind, values in history.service_gaps().items()},
        unasked_exits=[{"worker": e.worker, "exit_code": e.exit_code, "at": e.at} for e in exits],
        held_keys=leftovers.held_keys,
        drained=drained,
        seconds=round(seconds, 1),
    )
    verdict.broken = _broken(
        verdict, leftovers, history, recovery_limit=lease_seconds + RECOVERY_MARGIN_SECONDS
    )
    return verdict


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return count, median, 99th percentile and maximum."""
    return {
        "count": len(values),
        "p50": round(percentile(values, 50), 3),
        "p99": round(percentile(values, 99), 3),
        "max": round(max(values), 3),
    }


def _plain(history: History, cause: str) -> list[Any]:
    return [
        {"number": runs[0].number, "starts": [[round(run.at, 3), run.worker, run.pid] for run in runs]}
        for runs in history.examples(cause)
    ]


def _broken(verdict: Verdict, leftovers: Leftovers, history: History, *, recovery_limit: float) -> list[str]:
    problems = []
    if verdict.acknowledged + verdict.uncertain != verdict.tasks:
        problems.append(
            f"{verdict.tasks - verdict.acknowledged - verdict.uncertain} tasks were never published"
        )
    if failed := verdict.failed_publishes_without_a_fault:
        problems.append(f"{failed} publishes failed although nothing was done to the broker")
    if verdict.lost:
        problems.append(
            f"{len(verdict.lost)} acknowledged tasks never ran and are nowhere: {_some(verdict.lost)}"
        )
    if verdict.stranded or not verdict.drained:
        where = ", ".join(f"{count} in {key!r}" for key, count in verdict.held_keys.items())
        problems.append(
            f"not drained: {len(verdict.stranded)} tasks never ran and are still in the broker ({where})"
        )
    if verdict.set_aside_without_a_run:
        problems.append(f"{len(verdict.set_aside_without_a_run)} tasks were set aside without a run")
    problems += [
        f"{count} tasks ran again without a reason that allows it: {cause}"
        for cause, count in verdict.duplicates.items()
        if cause not in ALLOWED_CAUSES
    ]
    if verdict.unasked_exits:
        problems.append(f"{len(verdict.unasked_exits)} worker exits that nobody asked for")
    if verdict.forced_stops:
        problems.append(
            f"{verdict.forced_stops} workers did not stop within {STOP_PATIENCE_SECONDS:g} s of SIGTERM"
        )
    recovery = verdict.recovery_seconds.get(WORKER_KILL)
    if recovery and recovery["p99"] > recovery_limit:
        problems.append(
            f"tasks of killed workers ran again within {recovery['p99']} s (p99), not {recovery_limit:g} s"
        )
    if leftovers.effects is not None:
        without = (history.acknowledged - set(verdict.lost_in_everysec_window)) - leftovers.effects
        if without:
            problems.append(f"{len(without)} idempotent tasks have no effect: {_some(sorted(without))}")
    return problems


def _some(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:10]))
    return shown + (", ..." if len(numbers) > 10 else "")
