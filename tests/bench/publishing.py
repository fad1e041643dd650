"""Messages published a second by one process: one by one, and in bulk."""

from __future__ import annotations

import json
from pathlib import Path

from tests.bench.processes import forget
from tests.bench.publish_rate import WARM_UP
from tests.bench.servers import Aof, BrokerKind, RedisServer
from tests.bench.variants import Variant

TIMEOUT_SECONDS = 180
BULK_FACTOR = 5


def measure_publishing(
    variant: Variant, count: int, directory: Path, *, broker_kind: BrokerKind, aof: Aof
) -> dict[str, float]:
    """Return `.delay()` calls a second, bulk messages a second, and Redis commands for each of all these.

    Raises:
        RuntimeError: the process failed, or not every message arrived.
    """
    broker = RedisServer(directory / "broker", kind=broker_kind, aof=aof).start()
    system = variant.at(broker, broker, directory)
    system.prepare()
    report = directory / "publish.json"
    bulk = count * BULK_FACTOR
    child = system.start_python("publish", "tests.bench.publish_rate", str(report), str(count), str(bulk))
    if child.wait(TIMEOUT_SECONDS) != 0:
        raise RuntimeError(f"The publishing process failed; see {directory}/publish.log.")
    forget(child)
    expected = count + bulk + 2 * WARM_UP
    with broker.client() as client:
        arrived = client.llen("default")
    broker.kill()
    if arrived != expected:
        raise RuntimeError(f"{arrived} of {expected} published messages are in the queue.")
    return json.loads(report.read_text())
