"""How what became of an upstream test is compared with the list of exceptions."""

from __future__ import annotations

import pytest

from tests.upstream.exceptions import Expected, judge, load
from tests.upstream.suites import SUITES


def expect(*tests: str) -> list[Expected]:
    return [Expected("suite", "on purpose", tests)]


@pytest.mark.parametrize(
    "name", ["test_a.py::test_x[1]", "test_a.py::test_x", "test_a.py::test_*", "test_a.py::*"]
)
def test_a_listed_failure_is_excepted(name: str) -> None:
    verdict = judge({"t/unit/test_a.py::test_x[1]": "failed"}, expect(name))

    assert verdict.excepted == ["t/unit/test_a.py::test_x[1]"]
    assert verdict.unexpected == verdict.outdated == []


@pytest.mark.parametrize("name", ["test_a.py::test_x[2]", "test_a.py::test_xy", "test_b.py::*", "test_x"])
def test_another_failure_is_not(name: str) -> None:
    verdict = judge({"t/unit/test_a.py::test_x[1]": "failed"}, expect(name))

    assert verdict.unexpected == ["t/unit/test_a.py::test_x[1]"]
    assert verdict.excepted == []
    assert verdict.outdated == [name]


def test_an_exception_whose_tests_pass_is_outdated() -> None:
    outcomes = {"t/test_a.py::test_x[1]": "passed", "t/test_a.py::test_y": "skipped"}

    verdict = judge(outcomes, expect("test_a.py::test_x"))

    assert verdict.outdated == ["test_a.py::test_x"]
    assert (verdict.passed, verdict.skipped) == (1, 1)


def test_the_list_names_suites_that_exist_and_reasons() -> None:
    listed = [entry for suite in SUITES for entry in load(suite.name)]

    assert len(listed) > 5
    assert all(entry.reason.endswith((".", ")")) and entry.tests for entry in listed)
