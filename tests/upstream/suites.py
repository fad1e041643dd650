"""Kombu's and Celery's suites, and how each is run on the leased transport."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLUGINS = ("tests.upstream.leased_plugin", "tests.upstream.outcomes_plugin")
# Our own plugins would shuffle the tests, and set up Django for them.
WITHOUT = ("randomly", "django", "cacheprovider")


@dataclass(frozen=True)
class Suite:
    """Test files of a distribution that are run in one process."""

    name: str
    distribution: str
    files: tuple[str, ...]
    plugins: tuple[str, ...] = ()
    timeout_seconds: int = 60


class NoOutcomesError(Exception):
    """The suite ended without telling what became of its tests."""


def _celery(name: str) -> Suite:
    return Suite(
        f"celery-{name}",
        "celery",
        (f"t/integration/test_{name}.py",),
        plugins=("celery.contrib.pytest",),
        timeout_seconds=300,
    )


SUITES = (
    Suite(
        "kombu-unit",
        "kombu",
        ("t/unit/transport/test_redis.py",),
        plugins=("tests.upstream.mocked_server_plugin",),
        timeout_seconds=15,
    ),
    Suite(
        "kombu-integration",
        "kombu",
        ("t/integration/test_redis.py", "t/integration/test_redis_brpop_qos.py"),
    ),
    # A worker lives as long as the session, and its tests change the state of their process: one for each.
    *map(_celery, ("inspect", "worker", "tasks", "canvas")),
)


def run(suite: Suite, tests: tuple[str, ...], *, directory: Path, port: int, log: Path) -> dict[str, str]:
    """Run tests of the suite in a process of its own, and return what became of each.

    Args:
        tests: files or ids.
        directory: the unpacked source distribution.
        port: where a Redis server listens on this machine; what it holds is of no use to anybody.
        log: the output is added to it.

    Raises:
        NoOutcomesError: pytest did not come to its end.
    """
    outcomes = log.with_suffix(".json")
    outcomes.unlink(missing_ok=True)
    plugins = [word for name in (*PLUGINS, *suite.plugins) for word in ("-p", name)]
    without = [word for name in WITHOUT for word in ("-p", f"no:{name}")]
    options = ["-q", "-W", "ignore", "--tb=short", f"--timeout={suite.timeout_seconds}"]
    with log.open("ab") as output:
        subprocess.run(
            [sys.executable, "-m", "pytest", *plugins, *without, *options, *tests],
            cwd=directory,
            env=_environment(directory, port, outcomes),
            stdout=output,
            stderr=output,
            check=False,
        )
    if not outcomes.exists():
        raise NoOutcomesError(f"{suite.name} has not come to its end, see {log}")
    found: dict[str, str] = json.loads(outcomes.read_text(encoding="utf-8"))
    if not found:
        raise NoOutcomesError(f"{suite.name} ran no test, see {log}")
    return found


def _environment(directory: Path, port: int, outcomes: Path) -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("DJANGO_", "TASKYARD_"))
    }
    url = f"redis://127.0.0.1:{port}/0"
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT / 'platform'}:{ROOT}:{directory}",
        "UPSTREAM_OUTCOMES": str(outcomes),
        # Kombu's names
        "REDIS_HOST": "127.0.0.1",
        "REDIS_6379_TCP": str(port),
        # Celery's
        "REDIS_PORT": str(port),
        "TEST_BROKER": url,
        "TEST_BACKEND": url,
        "C_FORCE_ROOT": "1",
        # as in Celery's own runs: some tests read the log
        "WORKER_LOGLEVEL": "INFO",
    }
