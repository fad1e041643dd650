"""The end of a run whose effect has happened, while the state store is away."""

from __future__ import annotations

import datetime
import logging

import pytest

from taskyard.tasks.claims import PAUSE_SECONDS, Settlement
from tests.support.memory_state import MemoryStore

LEASE_SECONDS = 10
UNRECORDED = "effect done but not recorded, a duplicate would have it again"


@pytest.fixture
def store(clock):
    return MemoryStore(clock)


@pytest.fixture
def pauses():
    return []


@pytest.fixture
def settlement(store, clock, pauses):
    def pause(seconds):
        pauses.append(seconds)
        clock.seconds += seconds
        clock.moment += datetime.timedelta(seconds=seconds)

    settlement = Settlement(
        store=store,
        key="key",
        owner="owner",
        holder={"task_id": "id-1"},
        lease_seconds=LEASE_SECONDS,
        remember_seconds=3600,
        result_limit_bytes=100,
        clock=clock,
        pause=pause,
    )
    assert store.acquire("key", owner="owner", holder={}, lease_seconds=LEASE_SECONDS).is_granted
    return settlement


@pytest.fixture
def errors(caplog):
    caplog.set_level(logging.DEBUG, "taskyard")
    return lambda: [record.msg["event"] for record in caplog.records if record.levelname == "ERROR"]


def test_a_store_that_answers_is_asked_once(settlement, store, pauses, errors):
    assert settlement.complete("paid", patience_seconds=LEASE_SECONDS) is None

    assert store.read("key").result == '"paid"'
    assert pauses == errors() == []


def test_a_store_that_comes_back_in_time_is_told(settlement, store, pauses, errors):
    store.go_away("complete", times=5)

    assert settlement.complete("paid", patience_seconds=LEASE_SECONDS) is None

    assert store.read("key").state == "done"
    assert pauses == [PAUSE_SECONDS] * 5
    assert errors() == []


def test_a_store_that_comes_back_after_the_lease_is_told_where_nobody_took_the_key(settlement, store, clock):
    clock.moment += datetime.timedelta(seconds=LEASE_SECONDS * 2)
    store.go_away("complete", times=1)

    assert settlement.complete("paid", patience_seconds=LEASE_SECONDS) is None

    assert store.read("key").state == "done"


def test_a_store_that_stays_away_is_given_up_and_it_is_said(settlement, store, pauses, errors):
    store.go_away()

    assert settlement.complete("paid", patience_seconds=LEASE_SECONDS) is None

    assert LEASE_SECONDS <= sum(pauses) < LEASE_SECONDS + 2 * PAUSE_SECONDS
    assert errors() == [UNRECORDED]


def test_without_patience_there_is_one_attempt(settlement, store, pauses, errors):
    store.go_away()

    settlement.complete("paid", patience_seconds=0)

    assert pauses == []
    assert errors() == [UNRECORDED]


def test_the_claim_of_another_run_is_returned_and_left_alone(settlement, store, clock):
    clock.moment += datetime.timedelta(seconds=LEASE_SECONDS + 1)
    store.acquire("key", owner="other", holder={"task_id": "id-2"}, lease_seconds=LEASE_SECONDS)

    other = settlement.complete("paid", patience_seconds=LEASE_SECONDS)

    assert other.holder == {"task_id": "id-2"}
    claim = store.read("key")
    assert (claim.owner, claim.state, claim.result) == ("other", "held", None)


def test_a_late_release_leaves_the_claim_of_another_run_alone(settlement, store, clock):
    clock.moment += datetime.timedelta(seconds=LEASE_SECONDS + 1)
    store.acquire("key", owner="other", holder={}, lease_seconds=LEASE_SECONDS)

    settlement.release()

    assert store.read("key").owner == "other"
