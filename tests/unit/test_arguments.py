"""The argument guard: what is published is what the worker sees, it is small, no message shows a value."""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import logging
import math
import uuid
from collections import deque, namedtuple
from fractions import Fraction
from types import SimpleNamespace

import pytest
from celery import signature
from django.contrib.auth.models import User
from django.utils.functional import SimpleLazyObject
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy
from hypothesis import given
from hypothesis import strategies as st
from kombu.utils.json import dumps, loads

from taskyard.errors import ArgumentError, ArgumentNotJSONError, ArgumentTooLargeError
from taskyard.tasks.arguments import check_arguments, encoded_bytes

SECRET = "hunter2"


def check(*args, warn_bytes=16 * 1024, limit_bytes=256 * 1024, **kwargs):
    check_arguments("area.do_it", args, kwargs, warn_bytes=warn_bytes, limit_bytes=limit_bytes)


def refusal(*args, **kwargs) -> str:
    with pytest.raises(ArgumentNotJSONError) as caught:
        check(*args, **kwargs)
    assert SECRET not in str(caught.value)
    return str(caught.value)


class Level(enum.IntEnum):
    HIGH = 3


class Colour(enum.Enum):
    RED = "red"


Point = namedtuple("Point", "x y")


class Opaque:
    def __repr__(self) -> str:
        return SECRET


NATIVE = "Pass a JSON-native value (str, int, float, bool, None, list, dict)."


@pytest.mark.parametrize(
    ("value", "kind", "advice"),
    [
        (Opaque(), "Opaque", NATIVE),
        (SimpleNamespace(a=SECRET), "SimpleNamespace", NATIVE),
        (Fraction(1, 3), "Fraction", NATIVE),
        (complex(1, 2), "complex", NATIVE),
        (datetime.timedelta(1), "timedelta", NATIVE),
        (deque([1]), "deque", NATIVE),
        (range(3), "range", NATIVE),
        ((x for x in [1]), "generator", NATIVE),
        (lambda: 1, "function", NATIVE),
        (int, "type", NATIVE),
        (Colour.RED, "Colour", NATIVE),
        (ValueError(SECRET), "ValueError", NATIVE),
        (Point(1, 2), "Point", NATIVE),
        (SECRET.encode(), "bytes", "Store the bytes and pass their key."),
        (bytearray(SECRET.encode()), "bytearray", "Store the bytes and pass their key."),
        (memoryview(SECRET.encode()), "memoryview", "Store the bytes and pass their key."),
        ({SECRET}, "set", "Pass a sorted list."),
        (frozenset({SECRET}), "frozenset", "Pass a sorted list."),
        (math.nan, "float", "JSON has no such number; pass None or a string."),
        (math.inf, "float", "JSON has no such number; pass None or a string."),
        (-math.inf, "float", "JSON has no such number; pass None or a string."),
    ],
)
def test_each_kind_that_would_change_on_the_way_is_refused_by_name(value, kind, advice):
    what = f"is not JSON-native: it is of type {kind}. {advice}"

    assert refusal(1, value) == f"Task 'area.do_it': argument 2 {what}"
    assert refusal(order=value) == f"Task 'area.do_it': argument 'order' {what}"
    assert refusal({"a": [1, (value,)]}) == f"Task 'area.do_it': argument 1['a'][1][0] {what}"


def test_a_model_is_refused_with_the_advice_to_pass_its_key():
    assert refusal(User(pk=1, username=SECRET)) == (
        "Task 'area.do_it': argument 1 is not JSON-native: it is of type User. "
        "Pass its primary key and read it in the task."
    )


def test_a_lazy_object_is_refused():
    # request.user is one of these
    assert "argument 'user' is not JSON-native" in refusal(
        user=SimpleLazyObject(lambda: User(username=SECRET))
    )


@pytest.mark.parametrize("key", [1, None, True, 1.5, ("a",), Level.HIGH, Colour.RED])
def test_a_key_that_would_become_a_string_is_refused(key):
    assert refusal({"ok": {key: "v"}}) == (
        f"Task 'area.do_it': argument 1['ok'] is not JSON-native: it is of type {type(key).__name__}. "
        "The worker would see this key as a string; use string keys."
    )


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        0,
        -(2**70),
        0.0,
        -0.5,
        "",
        "ä\x00€😀",
        [],
        {},
        (1, 2),
        {"a": [{"b": None}]},
        datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC),
        datetime.datetime.fromisoformat("2026-01-02T00:00:00"),
        datetime.date(2026, 1, 2),
        datetime.time(1, 2),
        uuid.UUID(int=7),
        decimal.Decimal("1.10"),
        gettext_lazy("Yes"),
        mark_safe("<b>"),
        Level.HIGH,
    ],
)
def test_what_arrives_as_it_was_sent_passes(value):
    check(value, name=value, nested=[{"x": value}])


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.datetimes()
    | st.dates()
    | st.uuids()
    | st.decimals(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(args=st.lists(json_values, max_size=3), kwargs=st.dictionaries(st.text(), json_values, max_size=3))
def test_what_passes_survives_the_way_unchanged(args, kwargs):
    check(*args, limit_bytes=10**9, **{f"x{name}": value for name, value in kwargs.items()})

    assert loads(dumps([args, kwargs])) == [args, kwargs]


@pytest.mark.parametrize(
    ("make", "kind"),
    [(lambda box: box.append(box), "list"), (lambda box: box.append({"again": box}), "dict")],
)
def test_a_list_that_contains_itself_is_refused(make, kind):
    box: list = []
    make(box)

    message = refusal(box)
    assert message.startswith("Task 'area.do_it': argument 1[0]")
    assert message.endswith(
        f"... is not JSON-native: it is of type {kind}. "
        "It is nested over 100 levels deep, or contains itself."
    )
    assert len(message) < 300


def test_a_number_too_long_to_be_written_is_refused():
    assert refusal(10**5000) == (
        "Task 'area.do_it': argument 1 is not JSON-native: it is of type int. "
        "It has too many digits; pass a string."
    )
    check(10**4000, limit_bytes=5000)


def test_one_hundred_levels_are_enough():
    value: list = []
    for _ in range(99):
        value = [value]

    check(value)


def test_a_nested_value_does_not_have_to_be_long_to_be_measured():
    with pytest.raises(ArgumentTooLargeError):
        check([["x" * 600_000]])


def test_arguments_over_the_limit_are_refused_with_the_largest_named():
    with pytest.raises(ArgumentTooLargeError) as caught:
        check("x" * 10, rows=SECRET * 50, limit_bytes=200, warn_bytes=100)

    assert str(caught.value) == (
        "Task 'area.do_it': the arguments are 364 bytes, the limit is 200 (ARGUMENT_LIMIT_BYTES). "
        "The largest is argument 'rows' with 352. Store the data and pass an id."
    )


def test_large_arguments_are_logged_without_their_values(caplog):
    with caplog.at_level(logging.WARNING, "taskyard.tasks.arguments"):
        check("x", rows=SECRET * 20, limit_bytes=1000, warn_bytes=100)

    (record,) = caplog.records
    assert record.getMessage() == (
        "Task area.do_it: the arguments are 145 bytes, above the warning size of 100; "
        "the largest is argument 'rows'. Pass ids, not data."
    )


def test_arguments_at_the_limit_pass_silently(caplog):
    check("x" * 98, warn_bytes=100, limit_bytes=100)

    assert caplog.records == []


@given(args=st.lists(json_values, max_size=3), limit=st.integers(10, 400))
def test_nothing_over_the_limit_passes(args, limit):
    size = sum(encoded_bytes(value) for value in args)

    try:
        check(*args, warn_bytes=limit, limit_bytes=limit)
    except ArgumentTooLargeError:
        assert size > limit
    else:
        assert size <= limit


def test_size_is_counted_in_bytes_as_they_go_over_the_wire():
    assert encoded_bytes("ä") == len(json.dumps("ä"))
    with pytest.raises(ArgumentTooLargeError):
        check("\x00" * 50, warn_bytes=299, limit_bytes=299)


def test_the_errors_are_what_callers_catch():
    assert issubclass(ArgumentNotJSONError, ArgumentError)
    assert issubclass(ArgumentTooLargeError, ArgumentError)
    assert issubclass(ArgumentError, ValueError)
    assert issubclass(ArgumentNotJSONError, TypeError)


def test_a_signature_is_an_argument_like_any_dict() -> None:
    check(signature("area.do_it", args=(1,), kwargs={"a": 2}), callbacks=[signature("area.other")])
