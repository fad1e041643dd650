"""The format of the product file: tells a product from a bad row."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from tasks.imports.csv_rows import Row
from tasks.imports.errors import RowError
from tasks.imports.models import RejectedRow

COLUMNS = ("sku", "name", "price", "stock")
SKU_LENGTH, NAME_LENGTH = 64, 200
# Plain ASCII numbers: int() and Decimal() also take "1_000", "NaN" and the digits of every script.
_PRICE = re.compile(r"[0-9]{1,8}(\.[0-9]{1,2})?")
_STOCK = re.compile(r"-?[0-9]{1,9}")
Kind = RejectedRow.Kind


@dataclass(frozen=True, slots=True)
class ParsedProduct:
    """A row that can be imported."""

    sku: str
    name: str
    price: Decimal
    stock: int


def is_header(row: Row | None) -> bool:
    """Return whether a row is the header that we expect; capitals and spaces do not matter."""
    return row is not None and tuple(name.strip().lower() for name in row.fields or ()) == COLUMNS


def parse_product(row: Row) -> ParsedProduct:
    """Return the product of a row.

    Raises:
        RowError: says what is wrong, in words for the person who corrects the file.
    """
    if not row.is_utf8:
        raise RowError(Kind.ENCODING, "The row is not UTF-8. Save the file as CSV in UTF-8.")
    if row.fields is None or len(row.fields) != len(COLUMNS):
        found = "no readable" if row.fields is None else len(row.fields)
        raise RowError(Kind.COLUMN_COUNT, f"The row has {found} columns instead of {len(COLUMNS)}.")
    sku, name, price, stock = (field.strip() for field in row.fields)
    if not sku:
        raise RowError(Kind.MISSING_SKU, "The SKU is missing.")
    _check_text("SKU", sku, SKU_LENGTH)
    _check_text("name", name, NAME_LENGTH)
    if not _PRICE.fullmatch(price):
        raise RowError(
            Kind.BAD_PRICE, f"The price is {price[:40]!r}. Write it like 12.50, without a currency."
        )
    return ParsedProduct(sku, name, Decimal(price), _parse_stock(stock))


def _check_text(what: str, text: str, longest: int) -> None:
    if not 0 < len(text) <= longest:
        raise RowError(Kind.BAD_TEXT, f"The {what} has {len(text)} characters. Give 1 to {longest}.")
    if "\x00" in text:  # PostgreSQL takes none, and would refuse the whole chunk
        raise RowError(Kind.BAD_TEXT, f"The {what} contains a NUL character. Remove it.")


def _parse_stock(text: str) -> int:
    if not _STOCK.fullmatch(text):
        raise RowError(Kind.BAD_STOCK, f"The stock is {text[:40]!r}. Give a whole number.")
    stock = int(text)
    if stock < 0:
        raise RowError(Kind.NEGATIVE_STOCK, f"The stock is {stock}. Give 0 or more.")
    return stock
