"""The process that `tests.support.nursery` forks workers from: one JSON line in, one process id out."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys

import django
from celery import current_app
from django.core.management import call_command

from tests.support.processes import end_with_tests

MODULES = (
    "celery.apps.worker",
    "celery.bin.worker",
    "celery.concurrency.prefork",
    "celery.worker.consumer",
    "taskyard.transport.redis",
    "taskyard.worker.consumer",
    "taskyard.worker.request",
)


def main() -> None:
    django.setup()
    _load()
    # the kernel takes away what has ended
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become_worker(order["arguments"], order["log"])
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


def _load() -> None:
    """Import what a worker imports. Nothing of it connects."""
    for module in MODULES:
        importlib.import_module(module)
    current_app.loader.import_default_modules()
    current_app.finalize()


def _become_worker(arguments: list[str], log: str) -> None:
    code = 1
    try:
        os.setsid()
        end_with_tests()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        sys.argv = ["manage.py", "worker", *arguments]
        call_command("worker", *arguments)
        code = 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
