"""JSON as it goes over the wire: the same to every reader, whichever library writes it."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum

import pytest
from django.utils.functional import lazystr
from hypothesis import given
from hypothesis import strategies as st
from kombu.utils.json import loads

from taskyard.transport.wire import Encoder, encode_plain, is_plain, make_encoder

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
VALUES = st.recursive(SCALARS, lambda part: st.lists(part) | st.dictionaries(st.text(), part), max_leaves=20)


class Colour(IntEnum):
    RED = 1


class Text(str):
    __slots__ = ()


ENCODERS = {"msgspec": encode_plain, "fallback": make_encoder(None)}


def test_the_tests_run_with_the_fast_encoder():
    assert Encoder is not None


@pytest.mark.parametrize("encode", ENCODERS.values(), ids=ENCODERS)
@given(value=VALUES)
def test_a_reader_sees_what_was_written(encode, value):
    assert is_plain(value)
    assert json.loads(encode(value)) == value
    assert loads(encode(value)) == value


@pytest.mark.parametrize("encode", ENCODERS.values(), ids=ENCODERS)
@pytest.mark.parametrize("value", [2**80, -(2**70), "\ud800", "\u2028", "\x00", 1e308, (1, (2,)), {"": ""}])
def test_the_edges_of_json(encode, value):
    expected = json.loads(json.dumps(value))

    assert json.loads(encode(value)) == expected


@pytest.mark.parametrize(
    "value",
    [
        uuid.uuid4(),
        datetime(2026, 1, 1, tzinfo=UTC),
        Decimal("1.10"),
        Colour.RED,
        Text("a"),
        lazystr("a"),
        b"a",
        {1: "a"},
        {Text("a"): 1},
        {"a"},
        object(),
        type("Listed", (list,), {})(),
    ],
)
def test_what_kombu_writes_in_a_form_of_its_own_is_not_plain(value):
    assert not is_plain(value)
    assert not is_plain([[value]])
    assert not is_plain({"key": [value]})
