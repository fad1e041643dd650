"""A closed circuit breaker counts and opens; one opened by hand stays so. The tests move the clock."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest


class TestClosed:
    def test_calls_pass_and_are_counted(self, fleet):
        fleet.call()
        fleet.call(is_failure=True)

        state = fleet.state
        assert (state.state, state.calls, state.failures) == ("closed", 2, 1)
        assert (state.failure_rate, state.last_error) == (0.5, "PartnerError")

    def test_it_opens_with_enough_calls_of_which_enough_have_failed(self, fleet):
        changes = [fleet.call(is_failure=number % 2 == 1) for number in range(6)]

        assert changes[:5] == [None] * 5
        assert (changes[5].before, changes[5].after) == ("closed", "open")
        assert changes[5].reason == (
            "3 of 6 calls failed within 60 s, the last one with PartnerError; the first probe is in 30 s"
        )

    def test_a_lower_rate_does_not_open_it(self, fleet):
        for number in range(30):
            fleet.call(is_failure=number % 3 == 2)

        assert fleet.state.state == "closed"

    # a part of the window is counted anew, or another one is
    @pytest.mark.parametrize("seconds", [61, 75, 3000])
    def test_what_is_older_than_the_window_is_forgotten(self, fleet, seconds):
        for _ in range(4):
            fleet.call(is_failure=True)
        fleet.clock.move(seconds)

        fleet.call(is_failure=True)

        assert (fleet.state.state, fleet.state.calls) == ("closed", 1)

    def test_what_is_within_the_window_counts(self, fleet):
        for _ in range(5):
            fleet.clock.move(10)
            fleet.call(is_failure=True)

        assert fleet.state.state == "open"

    def test_an_end_that_says_nothing_is_not_counted(self, fleet):
        for _ in range(20):
            fleet.call(is_failure=None)

        assert fleet.store.overview() == []

    def test_no_outcome_is_lost_between_processes(self, fleet):
        fleet = fleet.changed(failure_rate=1.0)
        fleet.call()

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda _: fleet.call(is_failure=True), range(400)))

        assert (fleet.state.calls, fleet.state.failures) == (401, 400)

    def test_it_takes_a_small_fixed_space(self, fleet, breaker_server):
        for _ in range(200):
            fleet.call(is_failure=None)
            fleet.call()
            fleet.clock.move(3)

        assert breaker_server.client().keys("taskyard:breaker:*") == [b"taskyard:breaker:payments"]
        assert breaker_server.client().hlen("taskyard:breaker:payments") <= 20

    def test_it_is_forgotten_when_nobody_calls(self, fleet, breaker_server):
        fleet.call()

        assert 0 < breaker_server.client().ttl("taskyard:breaker:payments") <= 3600
        fleet.clock.move(3601)
        assert fleet.store.overview() == []

    def test_each_name_is_a_breaker_of_its_own(self, fleet):
        other = fleet.changed(name="mail")

        fleet.open()

        assert other.ask().is_granted


class TestByHand:
    def test_it_is_open_until_it_is_reset(self, fleet):
        fleet.call()

        change = fleet.store.force_open("payments", why="maintenance", who="ada")
        fleet.clock.move(10 * 24 * 3600)
        parked = fleet.ask()

        assert (change.before, change.after) == ("closed", "forced_open")
        assert not parked.is_granted
        assert parked.wait_seconds >= 60
        assert (fleet.state.forced_by, fleet.state.forced_because) == ("ada", "maintenance")
        assert fleet.store.reset("payments", who="ada").before == "forced_open"
        assert fleet.ask().is_granted

    def test_its_parked_runs_ask_seldom(self, fleet):
        fleet.store.force_open("payments", why="maintenance", who="ada")

        waits = [fleet.ask().wait_seconds for _ in range(2000)]

        assert waits == sorted(waits)
        assert waits[-1] - waits[0] == pytest.approx(2000 / 25, abs=1)

    def test_the_end_of_a_run_does_not_close_it(self, fleet):
        probe = fleet.let_probe()

        fleet.store.force_open("payments", why="maintenance", who="ada")

        assert fleet.end(probe) is None
        assert fleet.state.state == "forced_open"

    def test_a_reset_forgets_what_was_counted(self, fleet):
        fleet.open()

        assert fleet.store.reset("payments", who="ada").before == "open"
        assert fleet.store.overview() == []
        assert fleet.call(is_failure=True) is None

    def test_what_nobody_knows_cannot_be_reset(self, fleet):
        assert fleet.store.reset("payments", who="ada") is None

    def test_it_never_expires(self, fleet, breaker_server):
        fleet.store.force_open("payments", why="maintenance", who="ada")

        assert breaker_server.client().ttl("taskyard:breaker:payments") == -1
