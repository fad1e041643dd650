"""The same fault has the same type and place, on every machine and whatever its text says."""

from __future__ import annotations

import json
import sys
import textwrap
import traceback
from functools import partial
from types import TracebackType

import pytest

from taskyard.errors import RedactedError
from taskyard.tasks.call_keys import shortened
from taskyard.tasks.definition import check_priority
from taskyard.tasks.error_place import error_place, error_type
from taskyard.tasks.plain_values import plain
from taskyard.tasks.traceback import task_traceback

HERE = "tests/unit/test_error_place.py"


class PartnerError(Exception):
    """Raised by these tests."""


def caught(raise_it, *args):
    try:
        raise_it(*args)
    except Exception as error:
        return error
    raise AssertionError("it did not raise")


def fail():
    raise PartnerError("boom")


def line_of(function):
    return function.__code__.co_firstlineno + 1


def test_it_is_the_line_that_raises():
    assert error_place(caught(fail)) == f"{HERE}:{line_of(fail)} in fail"


def test_code_of_python_and_of_packages_is_not_it():
    def read_text():
        json.loads("not json")

    assert error_place(caught(read_text)) == f"{HERE}:{line_of(read_text)} in read_text"


def test_code_of_the_kit_is_not_it():
    class Broken(dict):
        def items(self):
            fail()

    assert error_place(caught(plain, Broken())) == f"{HERE}:{line_of(fail)} in fail"


def test_where_nothing_else_was_on_the_way_it_is_the_innermost_frame():
    error = caught(json.loads, "not json")
    error.__traceback__ = error.__traceback__.tb_next

    assert error_place(error).startswith("json/decoder.py:")
    assert error_place(error).endswith(" in raw_decode")


def test_an_error_that_the_kit_itself_has_raised_has_none():
    error = caught(partial(check_priority, 17, where="Task 'x'"))
    # as of a layer: nothing of the project on the way
    error.__traceback__ = error.__traceback__.tb_next

    assert error_place(error) == ""
    assert task_traceback(error) is None


def test_a_fault_of_the_kit_keeps_its_place():
    error = caught(shortened, 7, 120)
    error.__traceback__ = error.__traceback__.tb_next

    assert error_place(error).startswith("taskyard/tasks/call_keys.py:")


def test_an_error_that_was_never_raised_has_none():
    assert error_place(PartnerError("killed")) == ""


@pytest.mark.parametrize(
    ("module", "file"),
    [
        ("shop.orders.tasks", "shop/orders/tasks.py"),
        ("shop.orders", "shop/orders/__init__.py"),
        ("single", "single.py"),
    ],
)
def test_the_file_is_named_as_its_module_is_wherever_it_lies(tmp_path, monkeypatch, module, file):
    places = set()
    for root in ("here", "somewhere/else"):
        path = tmp_path / root / file
        path.parent.mkdir(parents=True)
        path.write_text(textwrap.dedent("def charge():\n    raise ValueError\n"))
        namespace = {"__name__": module}
        exec(compile(path.read_text(), str(path), "exec"), namespace)
        places.add(error_place(caught(namespace["charge"])))

    assert places == {f"{file}:2 in charge"}


def test_code_without_a_file_is_not_it():
    def run_text():
        exec(compile("fail()", "<string>", "exec"), {"fail": lambda: 1 / 0})

    # the lambda is a frame of this file
    assert error_place(caught(run_text)).startswith(HERE)


def test_a_traceback_that_has_travelled_says_the_same():
    from billiard.einfo import Traceback

    error = caught(fail)
    place = error_place(error)

    remade = [
        (frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(Traceback(error.__traceback__))
    ]
    assert isinstance(error.__traceback__, TracebackType)
    assert place.partition(":")[2].startswith(str(remade[-1][1]))


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (ValueError(), "ValueError"),
        (PartnerError(), f"{__name__}.PartnerError"),
        (RedactedError("x", original=PartnerError()), f"{__name__}.PartnerError"),
        (RedactedError("x", original=ValueError()), "ValueError"),
        (RedactedError("x"), "taskyard.errors.RedactedError"),
    ],
)
def test_the_type_has_its_qualified_name(error, name):
    assert error_type(error) == name


def test_the_module_of_this_test_is_not_installed():
    assert "site-packages" not in sys.modules[__name__].__file__
