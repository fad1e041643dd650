"""An effect in the database happens once, also if the process or the worker dies around its commit."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.support.waiting import wait_until

pytestmark = pytest.mark.faults
COUNT = "SELECT count(*) FROM auth_group WHERE name LIKE"
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


@pytest.fixture(params=["sqlite", "postgresql"])
def site(valkey, new_site, request):
    valkey.client().flushall()
    if request.param == "sqlite":
        return new_site(valkey.url)
    postgres, name = request.getfixturevalue("postgres"), request.getfixturevalue("postgres_database")
    return new_site(valkey.url, database_url=postgres.url(name))


@pytest.fixture
def postgres_site(valkey, new_site, postgres, postgres_database):
    valkey.client().flushall()
    return new_site(valkey.url, database_url=postgres.url(postgres_database))


def effects(site, key):
    """Count what the effects of a key have left in the database."""
    url = site.dead_letters.database_url
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(urlsplit(url).path[1:], timeout=20)) as connection:
            return connection.execute(f"{COUNT} ?", (f"{key} %",)).fetchone()[0]
    with psycopg.connect(url) as connection:
        return connection.execute(f"{COUNT} %s", (f"{key} %",)).fetchone()[0]


def were_first(site, key):
    return [record["is_first"] for record in site.history.starts(key)]


@pytest.mark.parametrize(("place", "first"), [("inside", [True, True]), ("after", [True, False])])
def test_a_process_that_dies_around_the_commit_has_one_effect(site, tmp_path, place, first):
    site.start_worker()

    site.tasks["probe.effect_then_die"].delay(place, str(tmp_path / "died"), place)

    site.history.wait_for_end(place)
    assert effects(site, place) == 1
    assert were_first(site, place) == first


def test_a_worker_that_dies_between_effect_and_acknowledgement_has_one_effect(postgres_site):
    site, gate = postgres_site, postgres_site.new_gate()
    victim = site.start_worker()
    site.tasks["probe.effect_then_hold"].delay("worker", str(gate))
    site.history.wait_for_start("worker")

    victim.kill()
    site.start_worker()
    site.history.wait_for_start("worker", count=2)
    gate.open()

    site.history.wait_for_end("worker")
    assert effects(site, "worker") == 1
    assert were_first(site, "worker") == [True, False]


@pytest.mark.parametrize(("fails", "first"), [(False, [True, False]), (True, [True, True, False])])
def test_a_second_one_waits_for_the_transaction_of_the_first(postgres_site, postgres, fails, first):
    site, gate = postgres_site, postgres_site.new_gate()
    site.start_worker(processes=2)
    site.tasks["probe.hold_effect"].delay("both", str(gate), fails)
    site.history.wait_for_start("both")
    site.tasks["probe.hold_effect"].delay("both", str(gate), False)
    wait_until(
        lambda: postgres.execute("postgres", WAITING) == [(1,)],
        timeout_seconds=30,
        what="the second one waits in the database",
    )
    assert were_first(site, "both") == [True]

    gate.open()

    site.history.wait_for_end("both", count=2)
    assert were_first(site, "both") == first
    assert effects(site, "both") == 1
