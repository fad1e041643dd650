"""One claim, 50 threads in 4 processes: each round has exactly one winner."""

import json
import subprocess
import sys

import pytest

from tests.support import processes
from tests.support.sites import probe_environment
from tests.support.workers import ROOT

pytestmark = pytest.mark.integration
COMMAND = (sys.executable, "-m", "tests.support.claim_contender")
THREADS = (13, 13, 12, 12)
# As many as fit into a few seconds.
ROUNDS = {"redis": 10_000, "valkey": 3000, "postgresql": 600, "sqlite": 600}


@pytest.fixture
def contend(spec, key, tmp_path):
    """Let the processes contend for so many rounds; returns what each of them reports."""

    def contend(rounds):
        witness = tmp_path / "witness"
        witness.write_bytes(bytes(8))
        running = [
            subprocess.Popen(
                [*COMMAND, spec.dump(), key, str(rounds), str(witness), str(threads)],
                cwd=ROOT,
                env={**probe_environment(tmp_path), "PYTHONPATH": f"{ROOT}:{ROOT / 'platform'}"},
                stdout=subprocess.PIPE,
                preexec_fn=processes.end_with_tests,
            )
            for threads in THREADS
        ]
        outputs = [process.communicate(timeout=120)[0] for process in running]
        assert [process.returncode for process in running] == [0] * len(THREADS)
        return [json.loads(output) for output in outputs]

    return contend


def test_each_round_has_one_winner(spec, contend):
    rounds = ROUNDS[spec.kind]

    reports = contend(rounds)

    wins = sorted(tuple(win) for report in reports for win in report["wins"])
    # Who was refused while the last round was under way may have won one more.
    assert [number for number, _ in wins] == list(range(len(wins)))
    assert rounds <= len(wins) < rounds + sum(THREADS)
    fences = [fence for _, fence in wins]
    assert fences == sorted(set(fences))
    assert [error for report in reports for error in report["errors"]] == []
    # and it was a contest
    assert all(len(report["wins"]) > rounds / 20 for report in reports)
    assert sum(report["refusals"] for report in reports) > rounds / 2
