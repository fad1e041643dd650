"""Brings the development database up to date before the parts start."""

from __future__ import annotations

from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS, OperationalError, connections
from django.db.migrations.executor import MigrationExecutor

from taskyard.errors import LaunchError
from taskyard.launch.output import Console

SPEAKER = "migrate"
# The first start applies dozens: one line says it.
SHOWN_MIGRATIONS = 10


def migrate(console: Console) -> None:
    """Apply the migrations that are missing, and show them.

    Raises:
        LaunchError: the database does not answer.
    """
    try:
        missing = _count_missing()
        if missing == 0:
            return
        if missing > SHOWN_MIGRATIONS:
            console.write(SPEAKER, f"Applying {missing} migrations.")
        call_command(
            "migrate",
            interactive=False,
            verbosity=0 if missing > SHOWN_MIGRATIONS else 1,
            stdout=_ConsoleWriter(console),
            no_color=True,
        )
    except OperationalError as error:
        reason = " ".join(str(error).split()).rstrip(".?")
        raise LaunchError(f"The database cannot be used: {reason}. Check DATABASE_URL.") from error
    finally:
        # The parts have connections of their own; ours would stay open for as long as they run.
        connections.close_all()


def _count_missing() -> int:
    executor = MigrationExecutor(connections[DEFAULT_DB_ALIAS])
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))


class _ConsoleWriter:
    """The stream that the migrate command writes to: whole lines go to the console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._line = ""

    def write(self, text: str) -> None:
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._console.write(SPEAKER, line)

    def flush(self) -> None:
        return
