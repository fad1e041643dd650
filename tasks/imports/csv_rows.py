"""Reading of CSV: rows with their place in the file, so that a chunk is read without what is before it."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# A file without line ends must not be read into memory as one line.
_LINE_LIMIT = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Row:
    """One row as it is in the file.

    `offset` (bytes) and `line` (counted from 1) say where it begins. `fields` is None where it is no CSV.
    Bytes that are not UTF-8 appear as lone surrogates, as Python's `surrogateescape` makes them.
    """

    fields: list[str] | None
    offset: int
    line: int
    raw: str

    @property
    def is_utf8(self) -> bool:
        try:
            self.raw.encode()
        except UnicodeEncodeError:
            return False
        return True


class RowReader:
    """Iterates over the rows of a file from a place on; empty lines are left out. Holds one row at a time.

    Args:
        file: opened for bytes; is moved to the offset.
        offset: where a row begins, in bytes.
        line: the line on which it begins, counted from 1.
    """

    def __init__(self, file: Any, *, offset: int = 0, line: int = 1) -> None:
        file.seek(offset)
        self._file, self._offset, self._line = file, offset, line
        self._taken: list[str] = []
        self._reader = csv.reader(self._lines())

    def __iter__(self) -> RowReader:
        return self

    def __next__(self) -> Row:
        while True:
            offset, line = self._offset, self._line
            self._taken.clear()
            fields = self._next_fields()
            if fields != []:
                return Row(fields, offset, line, "".join(self._taken))

    def _next_fields(self) -> list[str] | None:
        try:
            return next(self._reader)
        except csv.Error:
            # an endless quote, or line ends of another age: the reader goes on with the next line
            return None

    def _lines(self) -> Iterator[str]:
        """Yield the lines as the CSV reader asks for them; it asks for no more than its row needs."""
        while content := self._file.readline(_LINE_LIMIT):
            is_first = self._offset == 0
            self._offset += len(content)
            self._line += 1
            if is_first:
                content = content.removeprefix(_BYTE_ORDER_MARK)
            text = content.decode("utf-8", "surrogateescape")
            self._taken.append(text)
            yield text
