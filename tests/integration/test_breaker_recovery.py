"""An open circuit breaker parks, is probed, and lets the flow come back. The tests move the clock."""

from __future__ import annotations

import heapq
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.breakers import LEASE_SECONDS


class TestOpen:
    def test_nobody_begins_before_its_time(self, fleet):
        fleet.open()

        fleet.clock.move(29.9)

        assert not fleet.ask().is_granted
        assert fleet.state.next_probe_in_seconds == pytest.approx(0.1)

    def test_the_first_to_ask_afterwards_is_the_probe(self, fleet):
        fleet.open()
        fleet.clock.move(30)

        permit = fleet.ask()

        assert permit.token
        assert (permit.change.before, permit.change.after) == ("open", "half_open")
        assert permit.change.reason == "it was open for 30 s"

    def test_the_end_of_a_run_that_began_before_changes_nothing(self, fleet):
        slow = fleet.ask()
        fleet.open()

        assert fleet.end(slow) is None
        assert fleet.state.state == "open"

    def test_parked_runs_come_back_one_after_the_other(self, fleet):
        fleet.open()

        waits = [fleet.ask().wait_seconds for _ in range(10_000)]

        assert waits[0] == pytest.approx(30)
        assert waits == sorted(waits)
        assert max(within_a_second(waits)) <= 101
        # few at first, so that not all of them are there before it is known how the probe has ended
        assert sum(wait < 40 for wait in waits) < 30
        # but not for ever
        assert waits[-1] < 180
        assert fleet.state.parked == 10_000

    def test_those_that_come_back_too_early_wait_behind_the_others(self, fleet):
        fleet.open()
        first = [fleet.ask().wait_seconds for _ in range(1000)]

        again = fleet.ask().wait_seconds

        assert again >= first[-1]

    def test_a_long_outage_costs_a_parked_run_a_few_questions(self, fleet):
        """Three hundred parked runs, and a partner that is back after five minutes."""
        fleet.open()
        waiting = [(0.0, number) for number in range(300)]
        asked, ended = 0, []
        while waiting:
            at, number = heapq.heappop(waiting)
            fleet.clock.seconds = max(fleet.clock.seconds, at)
            permit = fleet.ask()
            asked += 1
            if permit.is_granted:
                is_down = fleet.clock.seconds < 300
                fleet.end(permit, is_failure=is_down)
                ended += [] if is_down else [at]
            if not permit.is_granted or is_down:
                heapq.heappush(waiting, (at + max(permit.wait_seconds, 1), number))

        # it is asked once in each of the four times that it is open, and a few times while it recovers
        assert asked < 300 * 8
        assert len(ended) == 300
        # the next probe is at 450 s, and then all are back within the time to recover
        assert ended[-1] - ended[0] < 60


class TestHalfOpen:
    @pytest.mark.parametrize("probes", [1, 3])
    def test_exactly_so_many_runs_of_the_fleet_probe(self, fleet, probes):
        fleet = fleet.changed(probes=probes)
        fleet.open()
        fleet.clock.move(30)

        with ThreadPoolExecutor(16) as threads:
            permits = list(threads.map(lambda _: fleet.ask(), range(64)))

        assert sum(permit.is_granted for permit in permits) == probes
        assert len({permit.token for permit in permits if permit.is_granted}) == probes
        assert fleet.state.probes == probes
        assert sum(permit.change is not None for permit in permits) == 1

    def test_the_others_ask_again_soon_but_not_at_once(self, fleet):
        fleet.let_probe()

        assert 1 <= fleet.ask().wait_seconds <= 5

    def test_a_dead_probe_frees_its_place(self, fleet):
        fleet.let_probe()

        fleet.clock.move(LEASE_SECONDS - 0.1)
        before = fleet.ask()
        fleet.clock.move(0.2)
        after = fleet.ask()

        assert not before.is_granted
        assert after.token

    def test_a_living_probe_keeps_its_place(self, fleet):
        probe = fleet.let_probe()

        for _ in range(5):
            fleet.clock.move(LEASE_SECONDS - 1)
            assert fleet.store.renew(fleet.name, owner=probe.token, lease_seconds=LEASE_SECONDS)
            assert not fleet.ask().is_granted

    def test_a_probe_that_has_lost_its_place_changes_nothing(self, fleet):
        late = fleet.let_probe()
        fleet.clock.move(LEASE_SECONDS + 1)
        fleet.ask()

        assert not fleet.store.renew(fleet.name, owner=late.token, lease_seconds=LEASE_SECONDS)
        assert fleet.end(late) is None
        assert fleet.state.state == "half_open"
        assert fleet.state.probes == 1

    def test_a_probe_that_says_nothing_frees_its_place(self, fleet):
        fleet.end(fleet.let_probe(), is_failure=None)

        assert fleet.ask().token

    def test_a_failed_probe_opens_it_again_for_twice_as_long(self, fleet):
        change = fleet.end(fleet.let_probe(), is_failure=True)

        assert (change.before, change.after) == ("half_open", "open")
        assert change.reason == "the probe failed with PartnerError; the next one is in 60 s"
        assert fleet.state.next_probe_in_seconds == 60

    def test_the_time_grows_up_to_a_limit(self, fleet):
        fleet = fleet.changed(max_open_seconds=100)
        fleet.open()

        waits = []
        for _ in range(4):
            fleet.clock.move(fleet.state.next_probe_in_seconds)
            fleet.call(is_failure=True)
            waits.append(fleet.state.next_probe_in_seconds)

        assert waits == [60, 100, 100, 100]

    def test_all_probes_must_succeed(self, fleet):
        fleet = fleet.changed(probes=2)
        first, second = fleet.let_probe(), fleet.ask()

        assert fleet.end(first) is None
        # what has succeeded is not asked again
        assert not fleet.ask().is_granted
        assert fleet.end(second).after == "recovering"

    def test_one_failed_probe_is_enough_to_open_it(self, fleet):
        fleet = fleet.changed(probes=3)
        first, second, third = fleet.let_probe(), fleet.ask(), fleet.ask()

        fleet.end(first)
        assert fleet.end(second, is_failure=True).after == "open"
        assert fleet.end(third) is None
        assert fleet.state.state == "open"


class TestRecovering:
    def test_the_flow_grows(self, fleet):
        fleet.recover()

        begun = []
        for _ in range(6):
            count = 0
            for _ in range(500):
                fleet.clock.move(0.02)
                count += fleet.ask().is_granted
            begun.append(count)

        assert begun == sorted(begun)
        assert 1 <= begun[0] < 25
        assert begun[-1] == 500

    def test_what_was_not_used_is_not_saved_up(self, fleet):
        fleet.recover()
        fleet.clock.move(20)

        begun = sum(fleet.ask().is_granted for _ in range(500))

        assert 1 <= begun < 10

    def test_the_time_to_come_back_fits_the_flow(self, fleet):
        fleet.recover()

        waits = [permit.wait_seconds for permit in (fleet.ask() for _ in range(500)) if not permit.is_granted]

        assert max(within_a_second(waits)) <= 101
        assert waits[-1] < 60

    def test_afterwards_it_is_closed(self, fleet):
        fleet.recover()
        fleet.clock.move(60)

        change = fleet.call()

        assert (change.before, change.after, change.reason) == (
            "recovering",
            "closed",
            "it was recovering for 60 s",
        )
        assert all(fleet.ask().is_granted for _ in range(100))

    def test_it_looks_closed_although_nobody_has_asked(self, fleet):
        fleet.recover()

        fleet.clock.move(60)

        assert fleet.state.state == "closed"

    def test_failures_open_it_again_sooner_and_for_longer(self, fleet):
        fleet = fleet.changed(minimum_calls=20)
        fleet.recover()
        fleet.clock.move(30)

        changes = []
        while fleet.state.state == "recovering":
            changes.append(fleet.call(is_failure=True))
            fleet.clock.move(0.1)

        assert len(changes) == 5
        assert fleet.state.next_probe_in_seconds == pytest.approx(60, abs=0.2)

    def test_what_began_before_the_outage_does_not_count(self, fleet):
        slow = fleet.ask()
        fleet.recover()

        fleet.end(slow, is_failure=True)

        assert fleet.state.calls == 0

    def test_after_a_recovery_it_opens_for_the_first_time_again(self, fleet):
        fleet.recover()
        fleet.clock.move(60)
        fleet.call()

        fleet.open()

        assert fleet.state.next_probe_in_seconds == 30

    def test_without_a_time_to_recover_it_closes_at_once(self, fleet):
        fleet = fleet.changed(recovery_seconds=0)

        change = fleet.end(fleet.let_probe())

        assert (change.after, change.reason) == ("closed", "the probe succeeded")
        assert all(fleet.ask().is_granted for _ in range(100))


def within_a_second(waits):
    """Return for each wait how many end within the second after it."""
    counts, end = [], 0
    for start, wait in enumerate(waits):
        while end < len(waits) and waits[end] < wait + 1:
            end += 1
        counts.append(end - start)
    return counts
