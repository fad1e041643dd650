"""The Celery app of worker processes in fault tests; configured by environment variables.

TY_BROKER       broker URL
TY_TRANSPORT    "leased", or "stock" for Kombu's own
TY_EFFECTS      file to which each run appends "start <id> <pid>" and "end <id> <pid>"
TY_OPTIONS      transport options, JSON
TY_PREFETCH     prefetch multiplier
TY_QUEUES       queue names, separated by commas
"""

from __future__ import annotations

import json
import os
import time

from celery import Celery
from celery.worker.control import control_command
from kombu import Queue

BROKER = os.environ.get("TY_BROKER", "redis://127.0.0.1:1/0")
IS_LEASED = os.environ.get("TY_TRANSPORT", "leased") == "leased"
QUEUES = os.environ.get("TY_QUEUES", "celery").split(",")

app = Celery("leased_app", broker=BROKER, set_as_current=False)
app.conf.update(
    broker_transport_options={
        "socket_timeout": 10,
        "socket_connect_timeout": 4,
        "visibility_timeout": 3600,
        **json.loads(os.environ.get("TY_OPTIONS", "{}")),
    },
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    task_acks_late=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=int(os.environ.get("TY_PREFETCH", "4")),
    worker_cancel_long_running_tasks_on_connection_loss=False,
    worker_enable_prefetch_count_reduction=False,
    task_queues=[Queue(name, routing_key=name) for name in QUEUES],
    task_default_queue=QUEUES[0],
    worker_send_task_events=False,
)
if IS_LEASED:
    app.conf.broker_transport = "taskyard.transport.redis:Transport"
    app.conf.worker_consumer = "taskyard.worker.consumer:Consumer"


def note(event: str, number: object) -> None:
    line = f"{event} {number} {os.getpid()} {time.monotonic():.6f}\n".encode()
    descriptor = os.open(os.environ["TY_EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


@app.task(name="test.run")
def run(number: int, seconds: float = 0.0) -> None:
    note("start", number)
    if seconds:
        time.sleep(seconds)
    note("end", number)


@app.task(name="test.kill_worker")
def kill_worker(number: int) -> None:
    note("start", number)
    os.kill(os.getppid() if os.environ.get("TY_POOL") == "prefork" else os.getpid(), 9)


@control_command(name="hang", args=[("seconds", float)])
def hang(state: object, seconds: float) -> None:
    """Stand still, in the worker's event loop."""
    time.sleep(seconds)
