"""Worker processes for tests of the transport, and what their tasks left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from celery import Celery

from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
# Short, so that a test need not wait long; the ratio to the reaper's interval is as in production.
LEASE_TTL = 3.0


class Effects:
    """What the tasks have done, in a file that outlives every process."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self, event: str) -> list[list[str]]:
        if not self.path.exists():
            return []
        return [line.split() for line in self.path.read_text().splitlines() if line.startswith(f"{event} ")]

    def counts(self, event: str = "end") -> Counter[int]:
        return Counter(int(line[1]) for line in self.lines(event))

    def order(self, event: str = "start") -> list[int]:
        return [int(line[1]) for line in self.lines(event)]


class Worker:
    """One Celery worker in a session of its own, so that it and its children can be killed together."""

    def __init__(
        self,
        url: str,
        effects: Effects,
        *,
        name: str = "w1",
        pool: str = "prefork",
        concurrency: int = 2,
        prefetch: int = 4,
        transport: str = "leased",
        queues: str = "celery",
        options: dict[str, Any] | None = None,
    ) -> None:
        self.log = effects.path.with_name(f"{name}.log")
        environment = {
            **{
                key: value
                for key, value in os.environ.items()
                if not key.startswith(("TY_", "DJANGO_", "TASKYARD_"))
            },
            "PYTHONPATH": f"{ROOT}:{ROOT / 'platform'}",
            "TY_BROKER": url,
            "TY_EFFECTS": str(effects.path),
            "TY_TRANSPORT": transport,
            "TY_PREFETCH": str(prefetch),
            "TY_POOL": pool,
            "TY_QUEUES": queues,
            "TY_OPTIONS": json.dumps(
                {"lease_ttl": LEASE_TTL, **(options or {})} if transport == "leased" else options or {}
            ),
            "C_FORCE_ROOT": "1",
        }
        arguments = [
            "-P",
            pool,
            "-c",
            str(concurrency),
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
        ]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "celery",
                    "-A",
                    "tests.support.leased_app",
                    "worker",
                    "-n",
                    f"{name}@test",
                    "-l",
                    "INFO",
                    *arguments,
                ],
                env=environment,
                cwd=ROOT,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_ready(self) -> Worker:
        wait_until(
            lambda: " ready." in self.text(), timeout_seconds=60, what=f"the worker is ready:\n{self.text()}"
        )
        return self

    def signal_group(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    def terminate(self) -> None:
        self.process.terminate()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.signal_group(signal.SIGKILL)
            self.process.wait()


def leased_app(url: str, **options: Any) -> Celery:
    """Return an app that publishes through the leased transport."""
    app = Celery("producer", broker=url, set_as_current=False)
    app.conf.update(
        broker_transport="taskyard.transport.redis:Transport",
        broker_transport_options=options,
        task_ignore_result=True,
    )
    return app


def publish(app: Celery, numbers: range, *, seconds: float = 0.0, **options: Any) -> None:
    """Publish `test.run` for each number, pipelined."""
    with (
        app.connection_for_write() as connection,
        app.amqp.Producer(connection) as producer,
        producer.batch(500),
    ):
        for number in numbers:
            app.send_task("test.run", (number, seconds), producer=producer, **options)
