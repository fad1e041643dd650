"""Kill, cut, freeze and restart things under load, then check the history.

    python -m tests.bench.torture --tasks 20000 --faults worker-kill,broker-kill-always --seed 1

Exit code 0: the promise held. 1: it did not. 2: the tool could not do its work.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from tests.bench.faults import BROKER_KILL_ALWAYS, BROKER_KILL_EVERYSEC, KINDS
from tests.bench.processes import end_everything, end_on_sigterm
from tests.bench.torture_run import TorturePlan, run_torture
from tests.bench.torture_table import torture_table

DEFAULT_FAULTS = tuple(kind for kind in KINDS if kind != BROKER_KILL_EVERYSEC)


def main() -> int:
    """Run from the command line."""
    options = _parser().parse_args()
    end_on_sigterm()
    console = Console(stderr=True, soft_wrap=True)
    directory = Path(tempfile.mkdtemp(prefix="taskyard-torture-"))
    plan = _plan(options)
    console.print(f"seed {plan.seed}; logs in {directory}")
    try:
        verdict = run_torture(plan, directory, tell=console.print)
    finally:
        end_everything()
    Console().print(torture_table(plan, verdict))
    if options.json:
        report = {"plan": asdict(plan), "held": verdict.held, **asdict(verdict)}
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    if verdict.held and not options.keep:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        console.print(f"logs, ledger and data are kept in {directory}")
    return 0 if verdict.held else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="torture", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=5000, help="how many tasks (default 5000)")
    parser.add_argument(
        "--seconds", type=float, default=120, help="the faults stop after this, or when the queue is empty"
    )
    parser.add_argument(
        "--faults",
        type=_fault_list,
        default=DEFAULT_FAULTS,
        help=f"comma-separated: {', '.join(KINDS)}, none",
    )
    parser.add_argument("--broker", choices=["redis-server", "valkey"], default="redis-server")
    parser.add_argument("--transport", choices=["taskyard", "stock"], default="taskyard")
    parser.add_argument(
        "--seed", type=int, default=None, help="of the choices of victims and pauses; random when not given"
    )
    parser.add_argument("--json", type=Path, help="write everything to this file")
    parser.add_argument("--task-ms", type=float, default=10, help="how long a task takes (default 10 ms)")
    parser.add_argument(
        "--idempotent", action="store_true", help="tasks whose effect can be applied once only"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--processes", type=int, default=2, help="pool processes per worker")
    parser.add_argument("--pool", choices=["prefork", "threads", "solo"], default="prefork")
    parser.add_argument("--prefetch", type=int, default=4)
    parser.add_argument(
        "--rate", type=float, default=200, help="tasks a second that are published while faults go on"
    )
    parser.add_argument(
        "--lease", type=float, default=10, help="lease of the kit, or visibility timeout of stock, in seconds"
    )
    parser.add_argument(
        "--drain", type=float, default=60, help="give up when nothing has run for this many seconds"
    )
    parser.add_argument("--keep", action="store_true", help="keep the logs also when the promise held")
    return parser


def _fault_list(text: str) -> tuple[str, ...]:
    kinds = tuple(kind.strip() for kind in text.split(",") if kind.strip() not in ("", "none"))
    for kind in kinds:
        if kind not in KINDS:
            raise argparse.ArgumentTypeError(f"{kind!r} is not a fault. Use: {', '.join(KINDS)}.")
    if BROKER_KILL_ALWAYS in kinds and BROKER_KILL_EVERYSEC in kinds:
        raise argparse.ArgumentTypeError(
            "A broker has one fsync policy: run broker-kill-always and -everysec apart."
        )
    return kinds


def _plan(options: argparse.Namespace) -> TorturePlan:
    return TorturePlan(
        tasks=options.tasks,
        seconds=options.seconds,
        faults=options.faults,
        broker=options.broker,
        transport=options.transport,
        seed=random.randrange(10**6) if options.seed is None else options.seed,
        task_seconds=options.task_ms / 1000,
        is_idempotent=options.idempotent,
        workers=options.workers,
        processes=options.processes,
        pool=options.pool,
        prefetch=options.prefetch,
        rate=options.rate,
        lease_seconds=options.lease,
        drain_seconds=options.drain,
    )


if __name__ == "__main__":
    sys.exit(main())
