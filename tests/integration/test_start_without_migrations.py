"""A worker whose database is not migrated starts, runs its tasks, and has said what is missing."""

import sqlite3

import pytest

from tests.support.sites import DATABASE_NAME

pytestmark = pytest.mark.integration
LINE = "migrations not applied, run `manage.py migrate`"


def test_a_worker_on_an_unmigrated_database_starts_and_names_what_is_missing(valkey, new_site):
    site = new_site(valkey.url)
    with sqlite3.connect(site.directory / DATABASE_NAME) as database:
        database.execute(
            "DELETE FROM django_migrations WHERE app = 'deadletters' AND name LIKE '0002%' OR app = 'auth'"
        )
    worker = site.start_worker()

    site.tasks["probe.record"].delay("runs")

    [line] = worker.wait_for_log(LINE)
    site.history.wait_for_end("runs")
    assert line["level"] == "error"
    assert line["missing"] == "deadletters.0002_replay_and_audit"
    assert len(worker.log_events(LINE)) == 1
