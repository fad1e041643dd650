"""The process that measures publishing; see `tests.bench.publishing`.

python -m tests.bench.publish_rate SYSTEM REPORT DELAYS BULK
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.client import Client

WARM_UP = 50


def main(argv: list[str]) -> None:
    system, report, delays, bulk = argv
    client = Client(system)
    task = client.task("noop")
    for number in range(WARM_UP):
        task.delay(number)
    client.publish_many(task, ((number,) for number in range(WARM_UP)))
    rates = {
        ".delay()/s": _rate(int(delays), lambda count: [task.delay(number) for number in range(count)]),
        "bulk/s": _rate(
            int(bulk), lambda count: client.publish_many(task, [(number,) for number in range(count)])
        ),
    }
    Path(report).write_text(json.dumps(rates))


def _rate(count: int, publish: Callable[[int], object]) -> float:
    began = time.perf_counter()
    publish(count)
    return count / (time.perf_counter() - began)


if __name__ == "__main__":
    main(sys.argv[1:])
