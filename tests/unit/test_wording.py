"""Times, spans and numbers as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from taskyard import wording

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-60, "just now"),
        (0, "just now"),
        (59, "59 s ago"),
        (60, "1 min ago"),
        (330, "5 min ago"),
        (3 * 3600 + 3000, "3 h ago"),
        (50 * 3600, "2 d ago"),
    ],
)
def test_how_long_ago_is_told_in_one_unit(seconds, shown):
    assert wording.ago(NOON - timedelta(seconds=seconds), NOON) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.3, "less than 1 s"), (61, "1 min 1 s"), (3600, "1 h"), (3601, "1 h"), (90_000, "1 d 1 h")],
)
def test_a_span_is_told_in_two_units(seconds, shown):
    assert wording.span(seconds) == shown


def test_times_are_shown_in_utc():
    moment = datetime(2026, 3, 1, 13, 30, 5, tzinfo=timezone(timedelta(hours=1)))

    assert wording.utc(moment) == "2026-03-01 12:30:05"


@pytest.mark.parametrize("value", [None, True, "12", float("nan"), float("inf"), 1e30])
def test_what_is_no_time_is_no_moment(value):
    assert wording.from_epoch(value) is None


@pytest.mark.parametrize(
    ("value", "shown"), [(10.0, "10"), (0.5, "0.5"), (0.1 + 0.2, "0.3"), (1000, "1,000"), (20, "20")]
)
def test_numbers_have_no_tail(value, shown):
    assert wording.number(value) == shown


def test_values_that_kombu_wraps_are_shown_without_the_envelope():
    value = {"at": {"__type__": "datetime", "__value__": "2026-03-01T12:00:00"}, "names": ["\u00e9"]}

    assert '"2026-03-01T12:00:00 (datetime)"' in wording.as_text(value)
    assert "\u00e9" in wording.as_text(value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("", ""), ("  \n", ""), ("one\ntwo", "one"), ("abcdefgh", "abcd\N{HORIZONTAL ELLIPSIS}")],
)
def test_a_text_is_cut_to_its_first_line(text, shown):
    assert wording.shorten(text, 5) == shown
