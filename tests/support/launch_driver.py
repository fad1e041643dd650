"""A launcher for tests, run as a script: the supervisor with parts that mimic the platform's.

launch_driver.py '{"directory": ..., "broker_port": ..., "parts": [[NAME, STAGE, BEHAVIOUR, TIMEOUT], ...]}'
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path

PART = Path(__file__).with_name("launch_part.py")


def main(text: str) -> int:
    from taskyard.brokers.embedded import EmbeddedBroker
    from taskyard.launch.orphan_guard import OrphanGuard
    from taskyard.launch.output import Console
    from taskyard.launch.process import Process, ProcessSpec, StopStage
    from taskyard.launch.stop_requests import StopRequests
    from taskyard.launch.supervisor import Supervisor

    config = json.loads(text)
    directory = Path(config["directory"])
    specs = [
        ProcessSpec(
            name=name,
            argv=(sys.executable, "-I", "-S", str(PART), name, str(directory / "events"), behaviour),
            stop_stage=StopStage[stage],
            stop_timeout_seconds=timeout,
        )
        for name, stage, behaviour, timeout in config["parts"]
    ]
    console = Console(sys.stdout, [spec.name for spec in specs])
    with StopRequests() as requests, ExitStack() as stack:
        guard = stack.enter_context(OrphanGuard())
        processes = [Process(spec, guard) for spec in specs]
        if config["broker_port"]:
            broker = EmbeddedBroker(directory / "valkey", config["broker_port"], guard=guard)
            stack.enter_context(broker)
            processes.insert(0, broker.process)
        return Supervisor(processes, console, requests, on_ready=lambda: console.say("all ready")).run()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "platform"))
    sys.exit(main(sys.argv[1]))
