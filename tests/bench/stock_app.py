"""Plain Celery on plain Kombu, the same probe tasks, the same guarantees: late acks, results off, JSON.

BENCH_BROKER_URL  the broker
BENCH_TUNED       "1": no remote chatter, a larger prefetch; else Celery's defaults
BENCH_VISIBILITY_SECONDS  after which an unacknowledged message is handed out again, looked at every second
"""

from __future__ import annotations

import os
import time
from typing import Any

from celery import Celery

from tests.bench.probe import record


def _transport_options() -> dict[str, Any]:
    visibility = os.environ.get("BENCH_VISIBILITY_SECONDS")
    if not visibility:
        return {}
    # The default sweep is every ~100 s, which a torture run would have to wait for.
    return {
        "visibility_timeout": float(visibility),
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
    }


app = Celery("bench_stock", broker=os.environ["BENCH_BROKER_URL"])
app.conf.update(
    task_default_queue="default",
    task_routes={"probe.urgent": {"queue": "critical"}, "probe.bulk": {"queue": "bulk"}},
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    broker_transport_options=_transport_options(),
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
)
record.connect()


@app.task(name="probe.touch")
def touch(number: int, seconds: float) -> None:
    record.record_start(number)
    time.sleep(seconds)


@app.task(name="probe.touch_once")
def touch_once(number: int, seconds: float) -> None:
    record.record_start(number)
    time.sleep(seconds)
    record.record_effect_once(number)


@app.task(name="probe.noop")
def noop(number: int, seconds: float = 0.0) -> None:
    return None


@app.task(name="probe.urgent")
def urgent(number: int, seconds: float = 0.0) -> None:
    record.record_start(number)


@app.task(name="probe.bulk")
def bulk(number: int, seconds: float) -> None:
    time.sleep(seconds)
