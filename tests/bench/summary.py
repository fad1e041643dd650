"""Medians, percentiles and spreads."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the nearest-rank percentile; `values` is not empty."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with its range."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))

    def __str__(self) -> str:
        return f"{shown(self.median)} [{shown(self.lowest)}-{shown(self.highest)}]"


def shown(value: float) -> str:
    """Return a number with the digits that mean something."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
