"""A worker says when it starts that the kit's tables are not there, and nothing where they are."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection, connections
from django.db.migrations.recorder import MigrationRecorder
from pytest_django import DjangoAssertNumQueries

from taskyard.worker.unapplied_migrations import report_unapplied, unapplied_migrations


class ElsewhereRouter:
    """Sends every app to the database `elsewhere`."""

    def db_for_write(self, model: Any, **_: Any) -> str:
        return "elsewhere"


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.DEBUG, "taskyard.worker")
    return lambda: [(record.levelname, record.msg) for record in caplog.records]


@pytest.mark.django_db
def test_nothing_is_logged_where_all_are_applied(
    lines: Any, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    # whether there is a table of migrations, and what is in it
    with django_assert_max_num_queries(2):
        report_unapplied()

    assert lines() == []


@pytest.mark.django_db
def test_one_error_names_what_is_not_applied_and_the_command(lines: Any) -> None:
    recorder = MigrationRecorder(connection)
    recorder.record_unapplied("deadletters", "0002_replay_and_audit")
    recorder.record_unapplied("taskyard", "0003_cancel_permission")
    recorder.record_unapplied("auth", "0001_initial")

    report_unapplied()

    [(level, line)] = lines()
    assert level == "ERROR"
    assert "deadletters.0002_replay_and_audit" in str(line)
    assert "taskyard.0003_cancel_permission" in str(line)
    assert "manage.py migrate" in str(line)
    assert "auth" not in str(line)


@pytest.mark.django_db
def test_an_app_whose_migrations_the_project_has_turned_off_has_none(lines: Any, settings: Any) -> None:
    MigrationRecorder(connection).record_unapplied("operations", "0001_held_claim")
    settings.MIGRATION_MODULES = {"operations": None}

    report_unapplied()

    assert lines() == []


def test_the_database_of_the_apps_is_asked_and_none_that_is_away_is_a_line(
    lines: Any, settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, django_db_blocker: Any
) -> None:
    name = str(tmp_path / "missing" / "db.sqlite3")
    monkeypatch.setitem(connections.databases, "elsewhere", {**connection.settings_dict, "NAME": name})
    settings.DATABASE_ROUTERS = [ElsewhereRouter()]
    with django_db_blocker.unblock():
        with pytest.raises(OperationalError):
            unapplied_migrations()

        report_unapplied()

    assert lines() == []
