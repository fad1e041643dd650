"""A short torture run against the kit, and the judge of the history on histories known to be good or bad."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.bench.faults import (
    BROKER_KILL_ALWAYS,
    BROKER_KILL_EVERYSEC,
    CHILD_KILL,
    CONNECTION_CUT,
    FREEZE,
    RESTART,
    WORKER_KILL,
    FaultEvent,
)
from tests.bench.fleet import UnaskedExit
from tests.bench.history import (
    BROKER_RESTARTED,
    CHILD_KILLED,
    CUT,
    LOST_ACK,
    PUBLISHED_TWICE,
    STOPPED,
    UNEXPLAINED,
    WORKER_FORCED,
    WORKER_FROZEN,
    WORKER_KILLED,
    History,
    Start,
)
from tests.bench.inventory import numbers_in
from tests.bench.prefill import copy_of
from tests.bench.publisher import ACKNOWLEDGED, UNCERTAIN, Publication
from tests.bench.verdict import Leftovers, Verdict, judge

REPOSITORY = Path(__file__).resolve().parents[2]
FAULTS = (WORKER_KILL, CHILD_KILL, CONNECTION_CUT, BROKER_KILL_ALWAYS)


@pytest.mark.faults
@pytest.mark.timeout(170)
def test_no_task_is_lost_or_repeated_without_a_kill(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    tool = [sys.executable, "-m", "tests.bench.torture", f"--faults={','.join(FAULTS)}", f"--json={report}"]
    options = ["--tasks=500", "--task-ms=80", "--seconds=25", "--seed=11", "--drain=25", "--idempotent"]

    finished = subprocess.run([*tool, *options], cwd=REPOSITORY, capture_output=True, text=True, timeout=160)

    assert report.exists(), finished.stderr
    found = json.loads(report.read_text())
    assert found["broken"] == [], finished.stdout
    assert finished.returncode == 0
    assert found["acknowledged"] + found["uncertain"] == 500
    assert set(found["faults"]) == set(FAULTS), "a fault did not happen: the run proves too little"


def history(
    starts: Iterable[Start] = (),
    faults: Iterable[FaultEvent] = (),
    *,
    publication: Publication | None = None,
    received: dict[str, list[tuple[float, int]]] | None = None,
) -> History:
    published = publication or Publication(7, 7, 0.0, 0.1, ACKNOWLEDGED)
    return History([published], list(starts), received or {}, list(faults))


def verdict_on(
    recorded: History, leftovers: Leftovers | None = None, exits: Iterable[UnaskedExit] = ()
) -> Verdict:
    return judge(
        recorded,
        leftovers or Leftovers(),
        list(exits),
        tasks=1,
        seconds=1.0,
        drained=True,
        lease_seconds=10.0,
    )


def test_one_run_of_each_task_holds_the_promise() -> None:
    assert verdict_on(history([Start(1.0, 7, "w0", 10)])).held


def test_a_task_that_never_ran_and_is_nowhere_is_lost() -> None:
    verdict = verdict_on(history())

    assert verdict.lost == [7]
    assert verdict.broken == ["1 acknowledged tasks never ran and are nowhere: 7"]


def test_a_task_that_is_still_in_the_broker_is_stranded_and_not_lost() -> None:
    verdict = verdict_on(history(), Leftovers(held={7}, held_keys={"unacked": 1}))

    assert (verdict.lost, verdict.stranded) == ([], [7])
    assert verdict.broken == ["not drained: 1 tasks never ran and are still in the broker (1 in 'unacked')"]


def test_a_task_that_became_a_dead_letter_without_a_run_breaks_the_promise() -> None:
    verdict = verdict_on(history(), Leftovers(dead_letters={"poison": [7]}))

    assert verdict.broken == ["1 tasks were set aside without a run"]


def test_a_task_whose_publish_failed_in_a_fault_may_be_missing() -> None:
    uncertain = Publication(7, 7, 0.0, 2.0, UNCERTAIN)
    kill = FaultEvent(BROKER_KILL_ALWAYS, 0.5, 1.5)

    assert verdict_on(history(faults=[kill], publication=uncertain)).held


def test_a_publish_that_fails_without_a_fault_breaks_the_promise() -> None:
    verdict = verdict_on(history(publication=Publication(7, 7, 0.0, 2.0, UNCERTAIN)))

    assert verdict.broken == ["1 publishes failed although nothing was done to the broker"]


@pytest.mark.parametrize(("ago", "lost", "in_window"), [(0.5, [], [7]), (5.0, [7], [])])
def test_everysec_may_lose_the_last_second_and_no_more(
    ago: float, lost: list[int], in_window: list[int]
) -> None:
    kill = FaultEvent(BROKER_KILL_EVERYSEC, 0.1 + ago, 0.2 + ago)

    verdict = verdict_on(history(faults=[kill]))

    assert (verdict.lost, verdict.lost_in_everysec_window) == (lost, in_window)


def test_always_may_lose_nothing() -> None:
    assert verdict_on(history(faults=[FaultEvent(BROKER_KILL_ALWAYS, 0.2, 0.3)])).lost == [7]


def test_an_exit_that_nobody_asked_for_breaks_the_promise() -> None:
    verdict = verdict_on(history([Start(1.0, 7, "w0", 10)]), exits=[UnaskedExit("w0", 2.0, 1)])

    assert verdict.broken == ["1 worker exits that nobody asked for"]


TWICE = (Start(1.0, 7, "w0", 10), Start(3.0, 7, "w1", 20))


@pytest.mark.parametrize(
    ("fault", "cause", "is_allowed"),
    [
        (FaultEvent(WORKER_KILL, 1.5, 1.6, worker="w0"), WORKER_KILLED, True),
        (FaultEvent(CHILD_KILL, 1.5, 1.5, worker="w0", pid=10), CHILD_KILLED, True),
        (FaultEvent(FREEZE, 0.5, 15.0, worker="w0"), WORKER_FROZEN, True),
        (FaultEvent(RESTART, 1.5, 2.5, worker="w0", was_forced=True), WORKER_FORCED, True),
        (FaultEvent(BROKER_KILL_EVERYSEC, 1.5, 1.9), LOST_ACK, True),
        (FaultEvent(RESTART, 1.5, 2.5, worker="w0"), STOPPED, False),
        (FaultEvent(CONNECTION_CUT, 1.5, 1.5), CUT, False),
        (FaultEvent(BROKER_KILL_ALWAYS, 1.5, 1.9), BROKER_RESTARTED, False),
        (FaultEvent(WORKER_KILL, 1.5, 1.6, worker="w9"), UNEXPLAINED, False),
        (FaultEvent(CHILD_KILL, 1.5, 1.5, worker="w0", pid=11), UNEXPLAINED, False),
        (FaultEvent(WORKER_KILL, 0.5, 0.6, worker="w0"), UNEXPLAINED, False),
        (FaultEvent(CONNECTION_CUT, 0.05, 0.05), PUBLISHED_TWICE, False),
    ],
)
def test_a_second_run_has_a_cause(fault: FaultEvent, cause: str, is_allowed: bool) -> None:
    verdict = verdict_on(history(TWICE, [fault]))

    assert verdict.duplicates == {cause: 1}
    assert any(cause in problem for problem in verdict.broken) is not is_allowed


def test_a_worker_that_does_not_stop_breaks_the_promise() -> None:
    stop = FaultEvent(RESTART, 2.0, 32.0, worker="w0", was_forced=True)

    verdict = verdict_on(history([Start(1.0, 7, "w0", 10)], [stop]))

    assert verdict.broken == ["1 workers did not stop within 30 s of SIGTERM"]


def test_a_thawed_worker_may_run_what_it_had_fetched_before() -> None:
    freeze = FaultEvent(FREEZE, 0.5, 2.9, worker="w1")

    recorded = history(TWICE, [freeze], received={"w0": [(0.9, 7)], "w1": [(2.95, 7)]})

    assert recorded.duplicates() == {WORKER_FROZEN: 1}


def test_a_cut_also_explains_a_second_run_of_what_was_only_reserved() -> None:
    cut = FaultEvent(CONNECTION_CUT, 0.7, 0.7)

    recorded = history(TWICE, [cut], received={"w1": [(0.5, 7)], "w0": [(0.9, 7)]})

    assert recorded.duplicates() == {CUT: 1}


def test_recovery_lasts_from_the_kill_to_the_next_start_elsewhere() -> None:
    kill = FaultEvent(WORKER_KILL, 2.0, 2.1, worker="w0")
    starts = [*TWICE, Start(1.5, 8, "w0", 10), Start(9.0, 9, "w1", 20)]
    received = {"w0": [(0.9, 7), (1.4, 8), (1.6, 9)], "w1": [(2.9, 7), (8.9, 9)]}

    recovery = history(starts, [kill], received=received).recovery_seconds()

    assert recovery == {WORKER_KILL: [1.0, 7.0]}


def test_recovery_ends_with_the_receipt_if_that_worker_is_killed_too() -> None:
    kills = [FaultEvent(WORKER_KILL, at, at, worker=worker) for at, worker in ((2.0, "w0"), (14.0, "w1"))]
    received = {"w0": [(0.9, 7)], "w1": [(13.0, 7)], "w2": [(25.0, 7)]}

    recovery = history([Start(25.5, 7, "w2", 30)], kills, received=received).recovery_seconds()

    assert recovery == {WORKER_KILL: [11.0, 11.5]}


def test_recovery_counts_from_the_return_of_a_broker_that_was_killed_meanwhile() -> None:
    faults = [FaultEvent(WORKER_KILL, 2.0, 2.1, worker="w0"), FaultEvent(BROKER_KILL_ALWAYS, 9.0, 10.0)]
    received = {"w0": [(0.9, 7)], "w1": [(20.9, 7)]}

    recovery = history([Start(21.0, 7, "w1", 20)], faults, received=received).recovery_seconds()

    assert recovery == {WORKER_KILL: [11.0]}


def test_a_service_gap_lasts_from_the_cut_to_the_next_start_and_needs_a_first_start() -> None:
    cuts = [FaultEvent(CONNECTION_CUT, at, at) for at in (0.5, 2.0)]

    assert history(TWICE, cuts).service_gaps() == {CONNECTION_CUT: [1.0]}


def test_what_a_lost_child_gave_up_is_not_held_by_its_worker() -> None:
    faults = [
        FaultEvent(CHILD_KILL, 1.5, 1.5, worker="w0", pid=10),
        FaultEvent(WORKER_KILL, 2.0, 2.1, worker="w0"),
    ]
    received = {"w0": [(0.9, 7)], "w1": [(49.0, 7)]}

    recovery = history([TWICE[0], Start(50.0, 7, "w1", 20)], faults, received=received).recovery_seconds()

    assert recovery == {CHILD_KILL: [48.5], WORKER_KILL: []}


def test_slow_recovery_breaks_the_promise() -> None:
    kill = FaultEvent(WORKER_KILL, 2.0, 2.1, worker="w0")
    received = {"w0": [(0.9, 7)], "w1": [(17.9, 7)]}
    recorded = history([TWICE[0], Start(18.0, 7, "w1", 20)], [kill], received=received)

    assert verdict_on(recorded).broken == ["tasks of killed workers ran again within 16.0 s (p99), not 15 s"]


def test_an_idempotent_task_without_its_effect_breaks_the_promise() -> None:
    verdict = verdict_on(history(TWICE[:1]), Leftovers(effects=set()))

    assert verdict.broken == ["1 idempotent tasks have no effect: 7"]


def test_messages_are_found_in_any_wrapping() -> None:
    body = "W1s0MiwgMC4wXSwge30sIG51bGxd"  # [[42, 0.0], {}, null]
    plain = json.dumps({"body": body, "headers": {}, "properties": {}})

    assert numbers_in(plain.encode()) == [42]
    assert numbers_in(json.dumps([plain, "exchange", "key"]).encode()) == [42]
    assert numbers_in(b"default\n" + plain.encode() + plain.encode()) == [42, 42]
    assert numbers_in(b"taskyard:lease:1") == []


def test_a_copied_message_has_ids_and_arguments_of_its_own() -> None:
    pattern = {
        "body": "W1s0MiwgMC4wXSwge30sIG51bGxd",
        "headers": {"id": "a"},
        "properties": {"delivery_tag": "t"},
    }

    copied = json.loads(copy_of(json.loads(json.dumps(pattern)), 5, 0.25))

    assert numbers_in(json.dumps(copied).encode()) == [5]
    assert copied["headers"]["id"] == copied["properties"]["correlation_id"] != "a"
    assert copied["properties"]["delivery_tag"] != "t"
