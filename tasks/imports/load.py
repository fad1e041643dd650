"""Input for the demo: a product file of any length, with mistakes as people make them."""

from __future__ import annotations

import csv
import io
import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

from tasks.imports.models import RejectedRow
from tasks.imports.products import COLUMNS

BAD_SHARE = 0.005
_ADJECTIVES = ("Blue", "Foldable", "Heavy", "Quiet", "Small", 'Round 12"', "Grüner", "Łódź")
_NOUNS = ("lamp", "chair, oak", "kettle", "notebook", "bicycle pump", "rucksack", "jardinière")
Kind = RejectedRow.Kind


@dataclass(slots=True)
class ExpectedCounts:
    """What an import of the file must end with."""

    total: int = 0
    rejected_by_kind: Counter[str] = field(default_factory=Counter)

    @property
    def rejected(self) -> int:
        return self.rejected_by_kind.total()

    @property
    def imported(self) -> int:
        return self.total - self.rejected


def write_products_csv(path: Path, rows: int, rng: random.Random) -> ExpectedCounts:
    """Write a product file of which about 0.5 % of the rows are wrong, row by row.

    Args:
        path: is replaced.
        rows: how many, without the header.
        rng: the same seed gives the same file.
    """
    expected = ExpectedCounts(total=rows)
    sku_of_good_row = ""
    kinds = cycle(Kind.values)
    with path.open("wb") as file:
        file.write(_line(COLUMNS))
        for number in range(1, rows + 1):
            product = _product(number, rng)
            if rng.random() < BAD_SHARE and sku_of_good_row:
                kind = next(kinds)
                expected.rejected_by_kind[kind] += 1
                file.write(_spoil(product, kind, sku_of_good_row))
            else:
                file.write(_line(product))
                # any good row so far may be the one that comes twice, also one from another chunk
                if not sku_of_good_row or rng.random() < 0.001:
                    sku_of_good_row = product[0]
    return expected


def _product(number: int, rng: random.Random) -> tuple[str, str, str, str]:
    name = f"{rng.choice(_ADJECTIVES)} {rng.choice(_NOUNS)}"
    return f"SKU-{number:07}", name, f"{rng.randrange(99, 99_999) / 100:.2f}", str(rng.randrange(0, 500))


def _spoil(product: tuple[str, str, str, str], kind: str, known_sku: str) -> bytes:
    """Return the line of a product with one mistake in it."""
    sku, name, price, stock = product
    match kind:
        case Kind.COLUMN_COUNT:
            return _line((*product, "surplus"))
        case Kind.ENCODING:
            return _line((sku, "Blumenkübel", price, stock), encoding="latin-1")
        case Kind.MISSING_SKU:
            return _line(("", name, price, stock))
        case Kind.BAD_TEXT:
            return _line((sku, " ", price, stock))
        case Kind.BAD_PRICE:
            return _line((sku, name, price.replace(".", ","), stock))
        case Kind.BAD_STOCK:
            return _line((sku, name, price, "many"))
        case Kind.NEGATIVE_STOCK:
            return _line((sku, name, price, f"-{1 + int(stock)}"))
        case _:
            return _line((known_sku, name, price, stock))


def _line(fields: tuple[str, ...], encoding: str = "utf-8") -> bytes:
    text = io.StringIO()
    csv.writer(text).writerow(fields)
    return text.getvalue().encode(encoding)
