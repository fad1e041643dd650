"""The benchmark for people: a table of medians and spreads, then one of ratios."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from tests.bench.summary import Spread
from tests.bench.variants import RATIOS

# (scenario, variant) -> one dictionary of measurements a round
Samples = dict[tuple[str, str], list[dict[str, float]]]
# Here more is better; for everything else less is.
RATES = ("tasks/s", ".delay()/s", "bulk/s")


def spreads(samples: Samples) -> dict[tuple[str, str], dict[str, Spread]]:
    """Return, for each scenario and variant, the median and range of each measurement."""
    return {
        key: {name: Spread.of([one[name] for one in rounds]) for name in rounds[0]}
        for key, rounds in samples.items()
        if rounds
    }


def medians_table(samples: Samples) -> Table:
    """Return the table of medians [lowest-highest]."""
    found = spreads(samples)
    variants = _in_order(variant for _, variant in found)
    table = Table(title="Median \\[lowest-highest] of the rounds", title_justify="left")
    table.add_column("scenario", style="bold")
    table.add_column("measurement")
    for variant in variants:
        table.add_column(variant, justify="right")
    for scenario in _in_order(scenario for scenario, _ in found):
        for name in _in_order(n for (s, _), values in found.items() if s == scenario for n in values):
            cells = [str(found.get((scenario, variant), {}).get(name, "")) for variant in variants]
            table.add_row(scenario, name, *cells)
        table.add_section()
    return table


def ratios_table(samples: Samples) -> Table:
    """Return how many times better each kit variant is than each stock variant."""
    table = Table(title="Ratios of the medians: how many times better", title_justify="left")
    table.add_column("scenario", style="bold")
    table.add_column("measurement")
    for ours, theirs in RATIOS:
        table.add_column(f"{ours.name} / {theirs.name}", justify="right")
    for (scenario, name), values in ratios(samples).items():
        table.add_row(scenario, name, *("" if value is None else f"{value:.2f}x" for value in values))
    return table


def ratios(samples: Samples) -> dict[tuple[str, str], list[float | None]]:
    """Return the ratios by scenario and measurement, one for each pair of `RATIOS`."""
    found = spreads(samples)
    result: dict[tuple[str, str], list[float | None]] = {}
    for scenario, name in _in_order((s, n) for (s, _), values in found.items() for n in values):
        pairs = [
            (found.get((scenario, ours.name), {}).get(name), found.get((scenario, theirs.name), {}).get(name))
            for ours, theirs in RATIOS
        ]
        result[scenario, name] = [_ratio(name, ours, theirs) for ours, theirs in pairs]
    for scenario in [s for s, n in result if n == "bulk/s"]:
        result[scenario, "bulk/s over stock .delay()/s"] = _bulk_over_delay(found, scenario)
    return result


def _ratio(name: str, ours: Spread | None, theirs: Spread | None) -> float | None:
    if ours is None or theirs is None or not ours.median or not theirs.median:
        return None
    return ours.median / theirs.median if name in RATES else theirs.median / ours.median


def _bulk_over_delay(found: dict[tuple[str, str], dict[str, Spread]], scenario: str) -> list[float | None]:
    values: list[float | None] = []
    for ours, theirs in RATIOS:
        bulk = found.get((scenario, ours.name), {}).get("bulk/s")
        delay = found.get((scenario, theirs.name), {}).get(".delay()/s")
        values.append(bulk.median / delay.median if bulk and delay else None)
    return values


def _in_order(items: object) -> Sequence[object]:
    return list(dict.fromkeys(items))  # type: ignore[call-overload]
