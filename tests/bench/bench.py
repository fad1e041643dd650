"""Measure the kit against stock Celery and Kombu, alternating in one run.

    python -m tests.bench.bench --rounds 5 --only prefork,publish

Scenarios: prefork, threads, solo (tasks/s and cost of a task), publish (messages/s), urgent (wait of a
critical task while bulk has 100,000 waiting). Absolute numbers are of this machine; trust the
ratios of one run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from tests.bench.bench_table import RATIOS, Samples, medians_table, ratios, ratios_table
from tests.bench.processes import end_everything, end_on_sigterm
from tests.bench.publishing import measure_publishing
from tests.bench.throughput import measure_throughput
from tests.bench.urgency import measure_urgency
from tests.bench.variants import STOCK, TASKYARD, VARIANTS, Variant

# The faster one gets a longer queue, so that its window is some seconds too.
TASKYARD_FACTOR = 3

Measure = Callable[[Variant, Path], dict[str, float]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Something to measure for each variant."""

    name: str
    measure: Measure
    variants: tuple[Variant, ...]


def main() -> int:
    """Run from the command line."""
    options = _parser().parse_args()
    end_on_sigterm()
    progress = Console(stderr=True, soft_wrap=True)
    directory = Path(tempfile.mkdtemp(prefix="taskyard-bench-"))
    samples: Samples = {}
    failures: list[str] = []
    try:
        for round_number in range(1, options.rounds + 1):
            for scenario in _chosen(options):
                for variant in scenario.variants:
                    label = f"round {round_number}: {scenario.name}, {variant.name}"
                    _measure_once(scenario, variant, directory, label, samples, failures, progress)
    except (KeyboardInterrupt, SystemExit):
        # What was measured until now is still worth showing.
        failures.append("interrupted: not every round was measured")
    finally:
        end_everything()
    console = Console(width=None if sys.stdout.isatty() else 180)
    if samples:
        console.print(medians_table(samples), ratios_table(samples))
    for failure in failures:
        console.print(f"[red]failed[/]: {failure}")
    if options.json:
        options.json.write_text(json.dumps(_report(options, samples, failures), indent=1) + "\n")
    if not failures:
        shutil.rmtree(directory, ignore_errors=True)
    return 1 if failures else 0


def _measure_once(
    scenario: Scenario,
    variant: Variant,
    directory: Path,
    label: str,
    samples: Samples,
    failures: list[str],
    progress: Console,
) -> None:
    place = directory / label.replace(":", "").replace(",", "").replace(" ", "-")
    place.mkdir(parents=True)
    try:
        found = scenario.measure(variant, place)
    except RuntimeError as error:
        failures.append(f"{label}: {error}")
        progress.print(f"{label}: failed: {error}")
        return
    finally:
        end_everything()
    samples.setdefault((scenario.name, variant.name), []).append(found)
    progress.print(f"{label}: " + ", ".join(f"{name} {value:,.2f}" for name, value in found.items()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="how often each measurement is made (default 3)"
    )
    parser.add_argument(
        "--tasks", type=int, default=6000, help="length of a queue; the kit gets 3 times as many"
    )
    parser.add_argument(
        "--backlog", type=int, default=100_000, help="bulk tasks that wait in the scenario urgent"
    )
    parser.add_argument(
        "--only", default="", help="comma-separated words of scenarios, for instance prefork,publish"
    )
    parser.add_argument("--broker", choices=["redis-server", "valkey"], default="redis-server")
    parser.add_argument(
        "--aof", choices=["no", "everysec", "always"], default="no", help="the broker's append-only file"
    )
    parser.add_argument("--json", type=Path, help="write every measurement to this file")
    return parser


def _chosen(options: argparse.Namespace) -> list[Scenario]:
    words = [word.strip() for word in options.only.split(",") if word.strip()]
    scenarios = _scenarios(options)
    chosen = [s for s in scenarios if not words or any(word in s.name for word in words)]
    if not chosen:
        raise SystemExit(
            f"--only {options.only!r} names no scenario. Use: {', '.join(s.name for s in scenarios)}."
        )
    return chosen


def _scenarios(options: argparse.Namespace) -> list[Scenario]:
    server = {"broker_kind": options.broker, "aof": options.aof}

    def throughput(pool: str) -> Measure:
        def measure(variant: Variant, directory: Path) -> dict[str, float]:
            tasks = options.tasks * (TASKYARD_FACTOR if variant.system == "taskyard" else 1)
            return measure_throughput(variant, pool, tasks, directory, **server)

        return measure

    return [
        *(Scenario(pool, throughput(pool), VARIANTS) for pool in ("prefork", "threads", "solo")),
        Scenario(
            "publish", lambda v, d: measure_publishing(v, options.tasks // 2, d, **server), (STOCK, TASKYARD)
        ),
        Scenario("urgent", lambda v, d: measure_urgency(v, options.backlog, d, **server), VARIANTS),
    ]


def _report(options: argparse.Namespace, samples: Samples, failures: list[str]) -> dict[str, object]:
    return {
        "options": {name: str(value) for name, value in vars(options).items()},
        "load_average": os.getloadavg(),
        "samples": [{"scenario": s, "variant": v, "rounds": rounds} for (s, v), rounds in samples.items()],
        "ratios": [
            {"scenario": s, "measurement": name, "ours": ours.name, "theirs": theirs.name, "ratio": value}
            for (s, name), values in ratios(samples).items()
            for (ours, theirs), value in zip(RATIOS, values, strict=True)
            if value is not None
        ],
        "failures": failures,
    }


if __name__ == "__main__":
    sys.exit(main())
