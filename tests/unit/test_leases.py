"""When held leases are renewed, and when they count as lost; with a clock that the test moves."""

import gc

import pytest

from taskyard.errors import StateUnavailableError
from taskyard.state import Claim
from taskyard.state.leases import HeldLeases

LEASE_SECONDS = 9.0


class AnsweringStore:
    """Answers a renewal with what it is told: True, False or an error."""

    def __init__(self):
        self.answer = True
        self.renewed = []
        self.on_renew = lambda: None

    def renew(self, key, *, owner, lease_seconds):
        self.renewed.append((key, owner, lease_seconds))
        self.on_renew()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def store():
    return AnsweringStore()


@pytest.fixture
def leases(clock):
    return HeldLeases(clock)


@pytest.fixture
def add(leases, store):
    def add(key="k", *, seconds=LEASE_SECONDS, of=None, **fields):
        return leases.add(of or store, Claim(key, "held", "me", 7, **fields), seconds)

    return add


def renew_due(leases):
    due = leases.due()
    leases.renew(due)
    return len(due)


def test_a_lease_says_what_it_is_of(add):
    lease = add("key")

    assert (lease.key, lease.owner, lease.fence, lease.seconds) == ("key", "me", 7, LEASE_SECONDS)
    assert not lease.is_lost


def test_it_is_renewed_after_a_third_of_its_length(add, leases, store, clock):
    lease = add()
    assert leases.next_at() == clock.seconds + 3
    clock.seconds += 2.9
    assert renew_due(leases) == 0

    clock.seconds += 0.1

    assert renew_due(leases) == 1
    assert store.renewed == [("k", "me", LEASE_SECONDS)]
    assert leases.next_at() == clock.seconds + 3
    assert not lease.is_lost


def test_all_that_are_due_are_renewed_in_one_pass_the_most_urgent_first(add, leases, store, clock):
    kept = [add("long", seconds=90), add("middle", seconds=12), add("short", seconds=3)]
    clock.seconds += 5

    assert renew_due(leases) == 2

    assert [key for key, _, _ in store.renewed] == ["short", "middle"]
    assert len(kept) == 3


def test_the_first_lease_lasts_from_when_the_claim_was_asked_for(add, leases, clock):
    lease = add(asked_at=clock.seconds - 4)

    assert leases.next_at() == clock.seconds - 1
    clock.seconds += LEASE_SECONDS - 4
    assert lease.is_lost


def test_a_renewed_lease_lasts_from_when_the_store_was_asked(add, leases, store, clock):
    lease = add()
    clock.seconds += 3

    def answer_late():
        clock.seconds += 2

    store.on_renew = answer_late
    renew_due(leases)
    clock.seconds += LEASE_SECONDS - 2 - 0.1
    assert not lease.is_lost
    clock.seconds += 0.2

    assert lease.is_lost


def test_the_answer_that_it_is_somebody_else_s_makes_it_lost_for_good(add, leases, store, clock):
    lease = add()
    store.answer = False
    clock.seconds += 3

    renew_due(leases)

    assert lease.is_lost
    assert leases.next_at() is None
    clock.seconds += 100
    assert renew_due(leases) == 0


@pytest.mark.parametrize("error", [StateUnavailableError("away"), RuntimeError("a bug")])
def test_a_store_that_is_away_for_a_moment_costs_no_lease(add, leases, store, clock, error):
    lease = add()
    store.answer = error
    clock.seconds += 3
    renew_due(leases)
    assert not lease.is_lost
    # asked again soon, several times before it ends
    assert clock.seconds < leases.next_at() <= clock.seconds + 0.5

    clock.seconds += 5
    store.answer = True
    assert renew_due(leases) == 1

    clock.seconds += 8
    assert not lease.is_lost


def test_without_a_renewal_it_counts_as_lost_when_it_has_ended(add, leases, store, clock):
    lease = add()
    store.answer = StateUnavailableError("away")
    clock.seconds += LEASE_SECONDS - 0.1
    renew_due(leases)
    assert not lease.is_lost

    clock.seconds += 0.1

    assert lease.is_lost


def test_it_is_not_lost_after_all_where_nobody_has_taken_it(add, leases, clock):
    lease = add()
    clock.seconds += LEASE_SECONDS + 1
    assert lease.is_lost

    renew_due(leases)

    assert not lease.is_lost


def test_a_store_that_is_away_is_asked_once_a_pass_and_others_are_not_kept_waiting(add, leases, store, clock):
    other = AnsweringStore()
    kept = [add("one"), add("two"), add("three"), add("other", of=other)]
    store.answer = StateUnavailableError("away")
    clock.seconds += 3

    renew_due(leases)

    assert len(store.renewed) == 1
    assert len(other.renewed) == 1
    assert [lease.is_lost for lease in kept] == [False] * 4


def test_a_lease_whose_work_has_ended_is_not_renewed(add, leases, clock):
    lease = add()
    clock.seconds += 3

    lease.end()

    assert renew_due(leases) == 0
    assert leases.next_at() is None


def test_a_renewal_under_way_when_the_work_ends_does_not_cry_loss(add, leases, store, clock, caplog):
    lease = add()
    clock.seconds += 3
    store.answer = False
    store.on_renew = lease.end

    renew_due(leases)

    assert not lease.is_lost
    assert not [record for record in caplog.records if "lost" in str(record.msg)]


def test_a_lease_that_nobody_holds_any_more_is_not_renewed_for_ever(add, leases, clock):
    lease = add()
    clock.seconds += 3

    del lease
    gc.collect()

    assert renew_due(leases) == 0
