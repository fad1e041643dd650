"""Hold the leased transport to Kombu's and Celery's own tests, from their source distributions.

    python -m tests.upstream.run [--suite kombu-unit ...] [--server valkey]

What fails is compared with the list of exceptions (exceptions.toml). Exit code 0: it is as listed. 1: a test
fails that is not listed, or a listed one passes. 2: the tool could not do its work.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.support.servers import SERVERS, MissingServiceError
from tests.upstream import exceptions
from tests.upstream.exceptions import Verdict
from tests.upstream.sources import fetch_tests
from tests.upstream.suites import ROOT, SUITES, NoOutcomesError, Suite, run

CACHE = ROOT / "var" / "upstream"


def main() -> int:
    """Run from the command line."""
    options = _parser().parse_args()
    console = Console(stderr=True, soft_wrap=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    verdicts: dict[str, Verdict] = {}
    try:
        for suite in SUITES:
            if not options.suite or suite.name in options.suite:
                console.print(f"{suite.name}: running, output in {_log(suite).relative_to(ROOT)}")
                verdicts[suite.name] = _hold(suite, options.server, console)
    except (NoOutcomesError, MissingServiceError, subprocess.CalledProcessError) as error:
        console.print(str(error), style="red", markup=False)
        return 2
    Console().print(_table(verdicts))
    wrong = [
        line
        for name, verdict in verdicts.items()
        for line in (
            *(f"{name}: fails, and is not listed: {test}" for test in verdict.unexpected),
            *(f"{name}: is listed, and does not fail: {test}" for test in verdict.outdated),
        )
    ]
    for line in wrong:
        console.print(line, style="red", markup=False)
    return 1 if wrong else 0


def _hold(suite: Suite, server_name: str, console: Console) -> Verdict:
    """Run the suite, and what fails unexpectedly a second time: many of these tests have deadlines."""
    directory = fetch_tests(suite.distribution, CACHE)
    expected = exceptions.load(suite.name)
    _log(suite).unlink(missing_ok=True)
    server = SERVERS[server_name](CACHE / "server", {"appendfsync": "no", "appendonly": "no"})
    server.start()
    try:

        def outcomes(tests: tuple[str, ...]) -> dict[str, str]:
            return run(suite, tests, directory=directory, port=server.port, log=_log(suite))

        first = outcomes(suite.files)
        doubtful = tuple(exceptions.judge(first, expected).unexpected)
        if doubtful:
            console.print(f"{suite.name}: {len(doubtful)} failed, they are tried again")
            server.client().flushall()
            first |= outcomes(doubtful)
    finally:
        server.discard()
    return exceptions.judge(first, expected)


def _log(suite: Suite) -> Path:
    return CACHE / f"{suite.name}.log"


def _table(verdicts: dict[str, Verdict]) -> Table:
    table = Table("suite", title="Kombu's and Celery's tests on the leased transport")
    for name in ("passed", "skipped", "excepted", "unexpected"):
        table.add_column(name, justify="right")
    for name, verdict in verdicts.items():
        counts = (verdict.passed, verdict.skipped, len(verdict.excepted), len(verdict.unexpected))
        table.add_row(name, *map(str, counts))
    return table


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="upstream", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [suite.name for suite in SUITES]
    parser.add_argument("--suite", action="append", choices=names, help="only this one; may be repeated")
    parser.add_argument("--server", choices=sorted(SERVERS), default="redis", help="default redis")
    return parser


if __name__ == "__main__":
    sys.exit(main())
