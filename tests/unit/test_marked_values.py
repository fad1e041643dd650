"""Marked values are found in text however they are written, and nothing else is lost."""

from __future__ import annotations

import datetime
import html
import json
import urllib.parse
import uuid
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from taskyard.marked_values import Scrubber, active_scrubber, scrubbing
from taskyard.masking import MASK

CARD = "4929-9999-0000-1111"


def scrub(text, *values):
    return Scrubber(lambda: list(values)).text(text)


class TestTexts:
    @pytest.mark.parametrize(
        "text",
        [
            f"card {CARD} refused",
            f"card={CARD}&x=1",
            f"x{CARD}y",
            repr({"card": CARD}),
            json.dumps([CARD]),
            f"ValueError({CARD!r})",
        ],
    )
    def test_a_value_is_masked_wherever_it_stands(self, text):
        shown = scrub(text, CARD)

        assert CARD not in shown
        assert MASK in shown

    def test_what_is_around_it_stays(self):
        assert scrub(f"card {CARD} of order 7 refused", CARD) == f"card {MASK} of order 7 refused"

    def test_upper_and_lower_case_are_the_same(self):
        assert scrub("no user ANN@EXAMPLE.ORG", "Ann@example.org") == f"no user {MASK}"

    @pytest.mark.parametrize(
        "value", ['it\'s "quoted"\n', "a\\b\\c:d", "späße/größe", "tab\tand space", "<b>&</b>'"]
    )
    @pytest.mark.parametrize(
        "written",
        [
            str,
            repr,
            lambda value: repr([repr([value])]),
            json.dumps,
            lambda value: json.dumps(value, ensure_ascii=False),
            lambda value: json.dumps({"inner": json.dumps({"outer": value})}),
            urllib.parse.quote,
            lambda value: urllib.parse.quote(value, safe=""),
            lambda value: urllib.parse.urlencode({"q": value}),
            html.escape,
            str.title,
        ],
    )
    def test_it_is_found_as_others_write_it(self, value, written):
        shown = scrub(f"before {written(value)} after", value)

        # what is left of it are the quotes that the writing has added
        assert set(shown.removeprefix("before ").removesuffix(" after")) <= set("*\"'\\[]{}inerout:q= ")

    def test_a_value_with_spaces_around_it_is_found_without_them(self):
        assert scrub("no such code: secretcode", "  secretcode\n") == f"no such code: {MASK}"

    def test_short_values_are_found_as_whole_words(self):
        assert scrub("cvc 123 in 1234 of abc123", "123") == f"cvc {MASK} in 1234 of abc123"

    @pytest.mark.parametrize("value", ["", "x", "ab", "--", "---", " ", "\n", True, False, None, 7, 42, 0.5])
    def test_what_would_be_found_everywhere_is_left_alone(self, value):
        text = "ab x -- --- True False None 7 42 0.5 \n rest"

        expected = text if value != 0.5 else text.replace("0.5", MASK)
        assert scrub(text, value) == expected

    def test_the_longer_of_two_values_is_masked_as_a_whole(self):
        assert scrub("key abcdef-ghi", "abcdef", "abcdef-ghi") == f"key {MASK}"


class TestNumbers:
    @pytest.mark.parametrize(
        "text", ["4929999900001111", "4929 9999 0000 1111", "4929-99990000.1111", "4,929,999,900,001,111"]
    )
    def test_a_long_number_is_found_with_any_separators(self, text):
        assert scrub(f"card {text} refused", CARD) == f"card {MASK} refused"
        assert scrub(f"card {text} refused", 4929999900001111) == f"card {MASK} refused"

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (1234, "1234"),
            (1234, "1,234"),
            (1234, "1,234.00"),
            (1234.5, "1234.50"),
            (-987, "-987"),
            (Decimal("12.340"), "12.34"),
        ],
    )
    def test_numbers_are_found_as_they_are_formatted(self, value, text):
        assert scrub(f"amount: {text}!", value) == f"amount: {MASK}!"

    def test_a_number_is_no_part_of_a_longer_one(self):
        assert scrub("in 12345 and 512349", 1234) == "in 12345 and 512349"


class TestOtherTypes:
    @pytest.mark.parametrize(
        "value",
        [
            uuid.UUID("12345678-1234-5678-1234-567812345678"),
            datetime.date(1980, 2, 29),
            datetime.datetime(1980, 2, 29, 12, 30, tzinfo=datetime.UTC),
        ],
    )
    def test_what_json_restores_is_found_too(self, value):
        assert scrub(f"born {value}", value) == f"born {MASK}"
        assert str(value) not in scrub(f"born {value!r}", value)

    def test_leaves_are_found_in_any_nesting(self):
        value = {"card": [{"number": CARD, "codes": ("987654", 4711)}], "ann@example.org": True}

        shown = scrub(f"{CARD} 987654 4711 ann@example.org card number codes", value)

        assert shown == f"{MASK} {MASK} {MASK} {MASK} card number codes"


class TestPieces:
    TOKEN = "eyJhbGciOiJIUzI1NiJ9.c3VwZXItc2VjcmV0LXBheWxvYWQ.dGhlLXNpZ25hdHVyZQ"

    @pytest.mark.parametrize("start", range(0, 40, 3))
    def test_a_piece_of_a_long_value_is_masked(self, start):
        piece = self.TOKEN[start : start + 15]

        assert scrub(f"bad token <{piece}>", self.TOKEN) == f"bad token <{MASK}>"

    def test_a_line_of_a_long_text_is_masked(self):
        document = "first line of it\nIBAN DE02 1203 0000 0000 2020 51\nlast line of it"

        assert scrub("row 2: 'IBAN DE02 1203 0000 0000 2020 51'", document) == f"row 2: '{MASK}'"

    def test_what_is_only_a_little_alike_stays(self):
        assert (
            scrub("see https://other.example/", "https://a-very-secret.example/path")
            == "see https://other.example/"
        )


class TestValues:
    def scrubber(self):
        return Scrubber(lambda: [CARD, 4711])

    def test_a_nesting_is_masked_in_a_copy(self):
        value = {"a": [CARD, 1], CARD: (4711, b"x" + CARD.encode())}

        shown = self.scrubber().value(value)

        assert shown == {"a": [MASK, 1], MASK: (MASK, b"x" + MASK.encode())}
        assert value["a"] == [CARD, 1]

    @pytest.mark.parametrize("value", [{"a": [1, "x"]}, (None, True, 1.5), "text", b"bytes", object()])
    def test_what_shows_nothing_is_returned_itself(self, value):
        assert self.scrubber().value(value) is value


class TestActive:
    def test_it_is_the_one_of_the_block(self):
        scrubber = Scrubber(list)

        assert active_scrubber() is None
        with scrubbing(scrubber):
            assert active_scrubber() is scrubber
        assert active_scrubber() is None

    def test_the_values_are_asked_for_only_when_there_is_something_to_scrub(self):
        asked = []

        def values():
            asked.append(1)
            return [CARD]

        scrubber = Scrubber(values)
        with scrubbing(scrubber):
            assert asked == []
        scrubber.text("some text")
        scrubber.text("and more")

        assert asked == [1]


@given(st.text(min_size=8, max_size=80), st.text(max_size=40), st.text(max_size=40))
@example("0" * 20, "0", "0")
@example("ab" * 12, "b", "a")
def test_no_text_shows_a_value_of_eight_characters(value, before, after):
    stripped = value.strip()
    if len(stripped) < 8 or MASK in stripped or not any(map(str.isalnum, stripped)):
        return

    shown = scrub(f"{before}{value}{after}", value)

    assert stripped not in shown
    assert MASK in shown
