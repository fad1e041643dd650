"""A million dead letters on PostgreSQL: what the pages ask reads a small part of the tables.

What is counted is the rows and index entries that the plans really read: a time would tell of the machine.
"""

from __future__ import annotations

import pytest

from tests.support.many_letters import FAULTS, NUMBER, RESOLVED, make_many

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
RARE = {"queue": "critical", "reason": "poison"}
FILTERS = {
    "none": {},
    "queue": {"queue": "critical"},
    "task": {"task": "area.task_7"},
    "the largest task": {"task": "area.task_0"},
    "reason": {"reason": "poison"},
    "fault": {"fingerprint": "0000000000000000"},
    "queue and reason": RARE,
    "queue, task and reason": {"queue": "critical", "task": "area.task_0", "reason": "retries_exhausted"},
    "all statuses": {"status": None},
    "discarded": {"status": "discarded"},
    "nowhere": {"queue": "nowhere"},
}
TIMES = {
    "the last day": {"since": "2026-02-26T00:00+00:00"},
    "a day long ago": {"since": "2026-01-10T00:00+00:00", "until": "2026-01-11T00:00+00:00"},
    "a day on one queue": {
        "since": "2026-01-10T00:00+00:00",
        "until": "2026-01-11T00:00+00:00",
        "queue": "critical",
    },
}
A_DAY = 24 * 3600 // 5
# The server's statistics are a random sample: it reads the index entries and the rows of a day apart or
# together, with some of the days beside it. All would be a million.
MOST_FOR_A_DAY = 8 * A_DAY


@pytest.fixture(scope="module")
def console(valkey, postgres, shared_site):
    url = postgres.create_database("many_letters", template="migrated")
    make_many(url)
    site = shared_site(valkey.url, database_url=url)
    yield site.start_console()
    site.close()
    postgres.execute("postgres", 'DROP DATABASE "many_letters" WITH (FORCE)')


@pytest.mark.parametrize("name", FILTERS | TIMES)
def test_a_page_of_the_list_reads_little_more_than_it_shows(console, name):
    read = console.value("read_for", what="list", chosen=(FILTERS | TIMES)[name])

    assert read["statements"] == 1
    # where a time ends is looked for among the entries of that time
    assert read["letters"] <= (MOST_FOR_A_DAY if name in TIMES else 50 * 30)


@pytest.mark.parametrize("name", FILTERS)
def test_groups_and_counts_come_from_the_table_of_counts(console, name):
    chosen = FILTERS[name]
    groups = console.value("read_for", what="groups", chosen=chosen)
    letters = console.value("read_for", what="count", chosen=chosen)
    faults = console.value("read_for", what="count_groups", chosen=chosen)

    # a sample of each of the 50
    assert groups["statements"] <= 3 + 50
    assert groups["letters"] <= 50 * 60
    assert groups["faults"] <= 2.5 * FAULTS
    assert letters["letters"] == faults["letters"] == 0
    assert letters["found"] <= NUMBER
    if name == "none":
        assert (letters["found"], faults["found"]) == (NUMBER - RESOLVED, FAULTS)


@pytest.mark.parametrize("name", TIMES)
def test_groups_and_counts_of_a_time_read_that_time_only(console, name):
    for what in ("groups", "count", "count_groups"):
        read = console.value("read_for", what=what, chosen=TIMES[name])

        assert 0 < read["found"] <= 2 * A_DAY
        assert read["letters"] <= MOST_FOR_A_DAY


def test_an_id_is_found_at_once(console):
    read = console.value("read_for", what="list", chosen={"search": "id-777777"})

    assert read["found"] == 1
    assert read["letters"] <= 20


@pytest.mark.parametrize("name", FILTERS)
def test_a_bulk_replay_in_the_middle_reads_what_it_replays(console, name):
    read = console.value("read_for", what="bulk", chosen=FILTERS[name])

    assert read["letters"] <= 50 * 30


def test_the_purge_deletes_in_chunks_without_growing(console):
    done = console.value("purge_and_measure", timeout_seconds=120)

    assert done["purged"] == RESOLVED
    assert done["grown_mb"] < 30
    # PostgreSQL is told: it would read every row in the hope of the rows that were there
    read = console.value("read_for", what="list", chosen={"status": "discarded"})
    assert read["found"] == 0
    assert read["letters"] <= 100
