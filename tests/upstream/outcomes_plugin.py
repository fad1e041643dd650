"""A pytest plugin that writes what became of each test into the JSON file named by UPSTREAM_OUTCOMES."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_outcomes: dict[str, str] = {}
_RANK = ("skipped", "passed", "failed")


def pytest_runtest_logreport(report: Any) -> None:
    """Keep the worst of a test's parts: set-up, call, subtests, teardown."""
    if report.when != "call" and report.outcome == "passed":
        return
    known = _outcomes.get(report.nodeid, "skipped")
    _outcomes[report.nodeid] = max(known, report.outcome, key=_RANK.index)


def pytest_sessionfinish() -> None:
    Path(os.environ["UPSTREAM_OUTCOMES"]).write_text(json.dumps(_outcomes), encoding="utf-8")
