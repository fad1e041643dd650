"""The upstream tests that are expected to fail, each with the reason (exceptions.toml)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

FILE = Path(__file__).with_name("exceptions.toml")


@dataclass(frozen=True)
class Expected:
    """Tests of one suite that fail for one reason.

    A test is named by its id without the directories; without its parameters it stands for all of them, and
    with a star at the end for all that begin so.
    """

    suite: str
    reason: str
    tests: tuple[str, ...]


@dataclass
class Verdict:
    """What became of a suite."""

    passed: int = 0
    skipped: int = 0
    excepted: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    # Names in the list of exceptions under which no test has failed.
    outdated: list[str] = field(default_factory=list)


def load(suite: str) -> list[Expected]:
    """Return the expected failures of a suite."""
    entries = tomllib.loads(FILE.read_text(encoding="utf-8"))["exception"]
    return [
        Expected(entry["suite"], entry["reason"], tuple(entry["tests"]))
        for entry in entries
        if entry["suite"] == suite
    ]


def judge(outcomes: dict[str, str], expected: list[Expected]) -> Verdict:
    """Compare what became of each test, by its id, with what is expected."""
    verdict = Verdict()
    names = [name for entry in expected for name in entry.tests]
    used: set[str] = set()
    for test, outcome in outcomes.items():
        if outcome != "failed":
            verdict.passed += outcome == "passed"
            verdict.skipped += outcome == "skipped"
            continue
        matching = [name for name in names if _matches(name, test.rpartition("/")[2])]
        (verdict.excepted if matching else verdict.unexpected).append(test)
        used.update(matching)
    verdict.outdated = [name for name in names if name not in used]
    return verdict


def _matches(name: str, test: str) -> bool:
    if name.endswith("*"):
        return test.startswith(name[:-1])
    return name in (test, test.partition("[")[0])
