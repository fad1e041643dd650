"""Finding marked values in text: what hides them in errors, log lines and events.

The values are the leaves of the marked arguments. They are looked for as they are, in upper and lower case,
as `repr`, JSON, HTML and URLs write them; long numbers (of cards, of telephones) with other separators too;
and of long values any longer piece. It would rather hide too much than too little.

What no search in a text can find, it does not promise: values of one or two characters, True, False and None,
pieces of short values, and what was encoded in any other way (encrypted, hashed, base64).
"""

from __future__ import annotations

import datetime
import html
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from functools import cached_property
from typing import Any
from urllib.parse import quote, quote_plus

from taskyard.masking import MASK

# Shorter values are not looked for: they would be found everywhere.
MIN_LENGTH = 3
# Shorter values are looked for as whole words: "100" is no part of "1001".
MIN_LENGTH_ANYWHERE = 6
# Numbers with so many digits are found whatever stands between the digits.
MIN_DIGITS_ANYWHERE = 6
# Of a value as long as this, pieces are found: all of 15 characters, many of 12.
MIN_LENGTH_OF_PIECES = 15
_MIN_PIECE = 12
_GRAM = 8
_PLACES_A_GRAM = 8
_MAX_DEPTH = 50
_SEPARATORS = r"[\s.,_\-/()]"
_SEPARATOR = re.compile(_SEPARATORS)
_NUMBER = re.compile(rf"[+#]?(?:\d|{_SEPARATORS})+")


class Scrubber:
    """Masks marked values in texts.

    Args:
        values: gives the marked arguments; called when there is something to scrub, and then only once.
    """

    def __init__(self, values: Callable[[], Any]) -> None:
        self._values = values

    def text(self, text: str) -> str:
        """Return the text with every marked value masked."""
        bare = text.replace("\\", "").lower()
        for word, is_whole in self._words:
            if word.replace("\\", "").lower() in bare:
                text = _pattern(word, is_whole=is_whole).sub(MASK, text)
        return self._without_pieces(self._without_numbers(text))

    def finds(self, text: str) -> bool:
        """Return whether the text shows a marked value."""
        return self.text(text) != text

    def value(self, value: Any, depth: int = 0) -> Any:
        """Return the value with what it shows of marked values masked; itself if that is nothing.

        Looks into plain containers, texts and numbers; other objects are returned as they are.
        """
        if isinstance(value, str):
            clean = self.text(value)
            return value if clean == value else clean
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, (int, float, Decimal)):
            return MASK if self.finds(str(value)) else value
        if isinstance(value, (bytes, bytearray)):
            text = bytes(value).decode("utf-8", "backslashreplace")
            return self.text(text).encode() if self.finds(text) else value
        if depth > _MAX_DEPTH:
            return MASK
        return self._container(value, depth)

    def _container(self, value: Any, depth: int) -> Any:
        if type(value) is dict:
            pairs = [(self.value(key, depth + 1), self.value(item, depth + 1)) for key, item in value.items()]
            before = [part for pair in value.items() for part in pair]
            return value if _are_same(before, [part for pair in pairs for part in pair]) else dict(pairs)
        if type(value) in (list, tuple, set, frozenset):
            items = [self.value(item, depth + 1) for item in value]
            return value if _are_same(value, items) else type(value)(items)
        return value

    def _without_numbers(self, text: str) -> str:
        if not self._numbers:
            return text
        bare = _SEPARATOR.sub("", text)
        for digits in self._numbers:
            if digits in bare:
                text = re.sub(f"{_SEPARATORS}{{0,2}}".join(digits), MASK, text)
        return text

    def _without_pieces(self, text: str) -> str:
        if not self._grams or len(text) < _MIN_PIECE:
            return text
        kept, at, place = [], 0, 0
        last = len(text) - _GRAM
        while place <= last:
            found = self._grams.get(text[place : place + _GRAM])
            if found is None:
                place += 1
                continue
            start, end = max((_run(text, place, value, where) for value, where in found), key=_length)
            if end - start >= _MIN_PIECE:
                kept += [text[at : max(at, start)], MASK]
                at = place = end
            else:
                place += 1
        return "".join([*kept, text[at:]])

    @cached_property
    def _leaves(self) -> list[Any]:
        return list(_leaves(self._values()))

    @cached_property
    def _words(self) -> list[tuple[str, bool]]:
        """The longest first, each with whether it is looked for as a whole word."""
        words = {word for leaf in self._leaves for word in _spellings(leaf) if len(word) >= MIN_LENGTH}
        return [(word, len(word) < MIN_LENGTH_ANYWHERE) for word in sorted(words, key=_longest_first)]

    @cached_property
    def _numbers(self) -> list[str]:
        texts = [str(leaf) for leaf in self._leaves if isinstance(leaf, (str, int, float, Decimal))]
        numbers = {re.sub(r"\D", "", text) for text in texts if _NUMBER.fullmatch(text)}
        return sorted((n for n in numbers if len(n) >= MIN_DIGITS_ANYWHERE), key=_longest_first)

    @cached_property
    def _grams(self) -> dict[str, list[tuple[str, int]]]:
        grams: dict[str, list[tuple[str, int]]] = {}
        for leaf in self._leaves:
            if not isinstance(leaf, str) or len(leaf) < MIN_LENGTH_OF_PIECES:
                continue
            for spelling in {leaf, _in_repr(leaf), _in_json(leaf)}:
                for place in range(0, len(spelling) - _GRAM + 1, _GRAM):
                    places = grams.setdefault(spelling[place : place + _GRAM], [])
                    if len(places) < _PLACES_A_GRAM:
                        places.append((spelling, place))
        return grams


_active: ContextVar[Scrubber | None] = ContextVar("taskyard_marked_values", default=None)
Source = Callable[[], Scrubber | None]
_sources: list[Source] = []


def set_source(source: Source) -> None:
    """Set what knows the run that this thread is in, also where no block of `scrubbing` is open."""
    _sources[:] = [source]


def active_scrubber() -> Scrubber | None:
    """Return what hides the marked values of the run that this code is part of; None if nothing is marked."""
    scrubber = _active.get()
    return _sources[0]() if scrubber is None and _sources else scrubber


@contextmanager
def scrubbing(scrubber: Scrubber) -> Iterator[None]:
    """Have log lines that are written inside, in this thread, show no marked value."""
    token = _active.set(scrubber)
    try:
        yield
    finally:
        _active.reset(token)


def _leaves(value: Any, depth: int = 0) -> Iterator[Any]:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, Mapping) and depth <= _MAX_DEPTH:
        for key, item in value.items():
            # a field's name says nothing, and is everywhere; a mail address as a key does
            if not str(key).isidentifier():
                yield from _leaves(key, depth + 1)
            yield from _leaves(item, depth + 1)
    elif isinstance(value, (list, tuple, set, frozenset)) and depth <= _MAX_DEPTH:
        for item in value:
            yield from _leaves(item, depth + 1)
    elif not isinstance(value, (str, int, float, Decimal, datetime.date, datetime.time)):
        yield from _leaves(str(value), depth + 1)
    elif _is_long_enough(str(value).strip()):
        yield value


def _is_long_enough(text: str) -> bool:
    # "---" is no secret, and is everywhere
    return len(text) >= (MIN_LENGTH if any(map(str.isalnum, text)) else MIN_LENGTH_ANYWHERE)


def _spellings(leaf: Any) -> Iterator[str]:
    if isinstance(leaf, str):
        for text in {leaf, leaf.strip()}:
            yield from (text, _in_repr(text), _in_json(text), html.escape(text))
            encodable = text.encode("utf-8", "replace")
            yield from (quote(encodable), quote(encodable, safe=""), quote_plus(encodable))
    elif isinstance(leaf, (int, float, Decimal)):
        yield from (str(leaf), f"{leaf:,}", f"{leaf:.2f}", f"{leaf:,.2f}")
    else:
        yield from (str(leaf), leaf.isoformat(), repr(leaf))


def _in_repr(text: str) -> str:
    return repr(text)[1:-1]


def _in_json(text: str) -> str:
    return json.dumps(text)[1:-1]


def _pattern(word: str, *, is_whole: bool) -> re.Pattern[str]:
    # Escaped once more each time that a text is a part of another one.
    pattern = "".join(
        r"\\+" if sign == "\\" else rf"\\*{sign}" if sign in "'\"" else re.escape(sign) for sign in word
    )
    return re.compile(rf"(?<![^\W_]){pattern}(?![^\W_])" if is_whole else pattern, re.I)


def _run(text: str, place: int, value: str, where: int) -> tuple[int, int]:
    """Return how far text and value go on alike, around a place where they do."""
    start, end, ahead = place, place, where
    while start > 0 and where > 0 and text[start - 1] == value[where - 1]:
        start, where = start - 1, where - 1
    while end < len(text) and ahead < len(value) and text[end] == value[ahead]:
        end, ahead = end + 1, ahead + 1
    return start, end


def _length(span: tuple[int, int]) -> int:
    return span[1] - span[0]


def _longest_first(word: str) -> tuple[int, str]:
    return -len(word), word


def _are_same(before: Any, after: Any) -> bool:
    return all(one is other for one, other in zip(before, after, strict=True))
