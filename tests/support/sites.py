"""One installation of the platform for a test: broker, database, settings, and what runs there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from taskyard.app import TaskyardCelery, create_app
from taskyard.conf import DATABASE_STATE, build_settings, settings_from_environ
from tests.support.console import ProjectConsole
from tests.support.dead_letters import SECRET_KEY, DeadLetters
from tests.support.history import History
from tests.support.workers import ROOT, WorkerProcess

# What programs need of the environment in which the tests run; all else is the test's.
KEPT_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "USER", "LOGNAME", "VIRTUAL_ENV", "SYSTEMROOT")
# One directory for all runs: a process that compiles every module again takes twice as long to start.
BYTECODE_DIR = Path(tempfile.gettempdir()) / f"taskyard-tests-bytecode-{os.getuid()}"
DATABASE_NAME = "db.sqlite3"


class Site:
    """What a test works with; everything that it starts ends with `close`.

    Args:
        directory: for the database, the history and the rest; empty or missing.
        broker_url: where its broker is, or will be.
        database_url: a migrated database.
        settings: values by upper-case name, as in `TASKYARD = {...}`.
    """

    def __init__(
        self,
        directory: Path,
        *,
        broker_url: str,
        database_url: str,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.broker_url = broker_url
        self.history = History(directory / "history.jsonl", check=self.assert_workers_alive)
        self.dead_letters = DeadLetters(database_url, check=self.assert_workers_alive)
        self.environment = {
            **probe_environment(directory),
            "DATABASE_URL": database_url,
            "PROBE_HISTORY": str(self.history.path),
            **_variables({"BROKER_URL": broker_url, **(settings or {})}),
        }
        self._started: list[WorkerProcess | ProjectConsole] = []
        self._gates = 0

    @cached_property
    def app(self) -> TaskyardCelery:
        """The project's Celery app in the process of the tests, talking to this site's broker."""
        return _make_app(self.environment)

    @property
    def tasks(self) -> Any:
        """The probe tasks of this site by name: `site.tasks["probe.record"].delay(...)`."""
        return self.app.tasks

    def start_worker(
        self, *, is_ready: bool = True, settings: Mapping[str, Any] | None = None, **options: Any
    ) -> WorkerProcess:
        """Start a worker and wait until it is ready.

        Args:
            is_ready: False returns at once.
            settings: for this worker only.
            options: of the command, for instance `processes=2, queue="high"`; one process by default.
        """
        options = {"processes": 1, **options}
        arguments = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        log_file = self.directory / f"worker-{len(self._started) + 1}.log"
        worker = WorkerProcess(
            {**self.environment, **_variables(settings or {})}, arguments, log_file=log_file
        )
        self._started.append(worker)
        if is_ready:
            worker.wait_until_ready()
        return worker

    def start_console(self, **settings: Any) -> ProjectConsole:
        """Start a process of the project and wait until it takes orders."""
        console = ProjectConsole({**self.environment, **_variables(settings)})
        self._started.append(console)
        return console

    def new_gate(self) -> Gate:
        """Return a gate, closed, for the probe tasks that wait for one."""
        self._gates += 1
        return Gate(self.directory / f"gate-{self._gates}")

    def assert_workers_alive(self) -> None:
        """Fail if a worker has ended that no test has ended."""
        for started in self._started:
            if isinstance(started, WorkerProcess):
                started.assert_alive()

    def close(self) -> None:
        for started in self._started:
            started.discard()
        if "app" in vars(self):
            self.app.close()


class Gate:
    """Holds a probe task until the test lets it go on.

    Args:
        path: the file whose existence means open.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def open(self) -> None:
        self.path.touch()


def probe_environment(directory: Path) -> dict[str, str]:
    """Return the environment of every process of a site, without its broker and database."""
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    return {
        **kept,
        "DJANGO_SETTINGS_MODULE": "tests.probe_settings",
        "DJANGO_SECRET_KEY": SECRET_KEY,
        "DJANGO_ALLOWED_HOSTS": "testserver,127.0.0.1",
        "PYTHONPYCACHEPREFIX": str(BYTECODE_DIR),
        "PYTHONWARNINGS": "ignore",
        "TASKYARD_VAR_DIR": str(directory),
        "TASKYARD_LOG_FORMAT": "json",
    }


def migrate(directory: Path, database_url: str) -> None:
    """Make the tables of a database."""
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity=0"],
        cwd=ROOT,
        env={**probe_environment(directory), "DATABASE_URL": database_url},
        check=True,
        timeout=120,
    )


def copy_database(template: Path, directory: Path) -> str:
    """Copy a migrated SQLite database into a directory, and return the URL of the copy."""
    directory.mkdir(parents=True, exist_ok=True)
    shutil.copy(template, directory / DATABASE_NAME)
    return f"sqlite:///{directory / DATABASE_NAME}"


def _variables(settings: Mapping[str, Any]) -> dict[str, str]:
    return {
        f"TASKYARD_{name}": json.dumps(value) if isinstance(value, dict) else str(value)
        for name, value in settings.items()
    }


def _make_app(environment: Mapping[str, str]) -> TaskyardCelery:
    import tests.probe_app.tasks  # noqa: F401 - declares the tasks

    given = settings_from_environ(environment)
    if given.get("STATE_URL") == DATABASE_STATE:
        # the site's database is not that of this process, which is to publish only
        del given["STATE_URL"]
    settings = build_settings(given)
    app = create_app("probe", settings=settings, set_as_current=False)
    app.finalize()
    return app
