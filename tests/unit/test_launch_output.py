"""The launcher's log: whole lines, fixed prefixes, colours only where they are wanted."""

import io

import pytest

from taskyard.launch.output import (
    MAX_LINE_CHARACTERS,
    PARTIAL_LINE_SECONDS,
    Console,
    LineAssembler,
    wants_colour,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class ManualClock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.mark.parametrize(
    ("stream", "environ", "expected"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_colours_are_for_terminals_whose_user_wants_them(stream, environ, expected):
    assert wants_colour(stream, environ) is expected


def test_every_line_has_a_prefix_of_the_same_width():
    stream = io.StringIO()
    console = Console(stream, ["web", "worker-critical"])

    console.write("web", "one")
    console.write("worker-critical", "two")
    console.say("three\nfour")

    assert stream.getvalue().splitlines() == [
        "web             | one",
        "worker-critical | two",
        "up              | three",
        "up              | four",
    ]


def test_each_name_has_its_own_colour_and_the_text_keeps_its_own():
    stream = Terminal()
    console = Console(stream, ["web", "beat"], colour=True)

    console.write("web", "plain")
    console.write("beat", "\x1b[31mred")

    first, second = stream.getvalue().splitlines()
    assert first == "\x1b[36mweb  | \x1b[0mplain"
    assert second == "\x1b[33mbeat | \x1b[0m\x1b[31mred\x1b[0m"


def test_without_colour_no_escape_sequence_is_left():
    stream = io.StringIO()

    Console(stream, ["web"]).write(
        "web", "\x1b[1;31mred\x1b[0m \x1b[2J\x1b[10;5Hmoved \x1b]0;title\x07\x07bell"
    )

    assert stream.getvalue() == "web | red moved bell\n"


def test_what_moves_the_cursor_is_taken_out_also_with_colour():
    stream = Terminal()

    Console(stream, ["web"], colour=True).write("web", "a\x1b[2Jb\x1b[Kc\x1b]0;title\x1b\\d\x9b31me")

    assert stream.getvalue().endswith("abcd31me\n")


def test_a_closed_stream_is_noticed_and_survived():
    stream = io.StringIO()
    console = Console(stream, ["web"])
    stream.close()

    console.write("web", "into the void")
    console.write("web", "again")

    assert console.is_gone


def test_a_stream_that_cannot_show_a_letter_shows_the_rest():
    raw = io.BytesIO()
    console = Console(io.TextIOWrapper(raw, encoding="ascii", write_through=True), ["web"])

    console.write("web", "Zürich")

    assert raw.getvalue() == b"web | Z?rich\n"
    assert not console.is_gone


def test_lines_are_made_of_the_pieces_in_which_they_come():
    lines = LineAssembler()

    assert lines.feed(b"one\ntw") == ["one"]
    assert lines.feed(b"o\nthree\n") == ["two", "three"]
    assert lines.finish() == []


def test_a_letter_that_is_cut_in_two_arrives_whole():
    lines = LineAssembler()
    encoded = "ü\n".encode()

    assert lines.feed(encoded[:1]) == []
    assert lines.feed(encoded[1:]) == ["ü"]


def test_bytes_that_are_no_text_are_replaced():
    assert LineAssembler().feed(b"a\xff\n") == ["a\ufffd"]


def test_of_a_rewritten_line_the_last_state_is_shown():
    assert LineAssembler().feed(b"10 %\r 50 %\r100 %\r\n") == ["100 %"]


def test_a_line_without_an_end_is_shown_after_a_while():
    clock = ManualClock()
    lines = LineAssembler(clock)
    lines.feed(b"Password: ")

    clock.seconds = PARTIAL_LINE_SECONDS / 2
    assert lines.overdue() == []
    clock.seconds = PARTIAL_LINE_SECONDS
    assert lines.overdue() == ["Password: "]
    assert lines.overdue() == []


def test_a_line_without_an_end_is_shown_when_the_process_ends():
    lines = LineAssembler()
    lines.feed(b"last words")

    assert lines.finish() == ["last words"]


def test_a_very_long_line_is_shown_in_parts():
    lines = LineAssembler()

    shown = lines.feed(b"x" * (2 * MAX_LINE_CHARACTERS + 5))

    assert [len(line) for line in shown] == [MAX_LINE_CHARACTERS, MAX_LINE_CHARACTERS]
    assert lines.finish() == ["xxxxx"]
