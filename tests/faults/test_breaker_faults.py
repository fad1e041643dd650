"""What a circuit breaker does when a probe's process dies, and when the server that keeps it does."""

from __future__ import annotations

import time

import pytest

from taskyard.breakers import overview
from taskyard.errors import StateUnavailableError
from tests.support import processes
from tests.support.breakers import Partner
from tests.support.fixtures import running
from tests.support.servers import ValkeyServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.faults

TASKS = 20


@pytest.fixture
def partner(tmp_path):
    partner = Partner(tmp_path / "partner")
    partner.go_down()
    return partner


def state_of(site):
    try:
        return next((state for state in overview(site.app.settings) if state.name == "partner"), None)
    except StateUnavailableError:
        return None


def wait_for_state(site, *wanted):
    def is_so():
        site.assert_workers_alive()
        return getattr(state_of(site), "state", None) in wanted

    wait_until(is_so, timeout_seconds=30, what=f"the breaker is {' or '.join(wanted)}")


def publish(site, partner, *, count=TASKS, prefix="call"):
    keys = [f"{prefix} {number}" for number in range(count)]
    for key in keys:
        site.tasks["probe.call_partner"].delay(key, str(partner))
    return keys


def hold_a_probe(site, partner):
    """Let a run probe, and return its start; the partner holds its call."""
    count = len(site.history.records("start"))
    partner.hold_calls()
    wait_until(
        lambda: len(site.history.records("start")) > count and state_of(site).probes == 1,
        timeout_seconds=30,
        what="a run probes",
    )
    (start,) = site.history.records("start")[count:]
    return start


def assert_all_ended_once(site, keys, *, timeout_seconds=60):
    for key in keys:
        site.history.wait_for_end(key, timeout_seconds=timeout_seconds)
    assert [key for key in keys if len(site.history.ends(key)) != 1] == []
    assert site.dead_letters.rows() == []


@pytest.mark.parametrize("whole_worker", [False, True], ids=["process", "worker"])
def test_the_place_of_a_probe_that_is_killed_is_free_within_seconds(
    own_valkey, new_site, partner, whole_worker
):
    site = new_site(own_valkey.url, LEASE_SECONDS=1)
    workers = [site.start_worker(processes=2) for _ in range(2)]
    keys = publish(site, partner)
    wait_for_state(site, "open")
    probe = hold_a_probe(site, partner)
    (worker,) = [worker for worker in workers if probe["pid"] in worker.children()]
    count = len(site.history.records("start"))

    if whole_worker:
        worker.kill()
    else:
        processes.kill_pid(probe["pid"])
    killed_at = time.monotonic()
    wait_until(
        lambda: len(site.history.records("start")) > count, timeout_seconds=15, what="another run probes"
    )

    second = site.history.records("start")[count]
    assert second["at"] - killed_at < 5
    assert second["pid"] != probe["pid"]
    assert state_of(site).probes == 1
    partner.come_back()
    partner.answer_calls()
    assert_all_ended_once(site, keys)


def test_it_is_still_open_after_a_restart_of_its_server(own_valkey, new_site, partner):
    site = new_site(own_valkey.url)
    site.start_worker(processes=2)
    keys = publish(site, partner)
    wait_for_state(site, "open")
    wait_until(lambda: state_of(site).parked > 0, timeout_seconds=30, what="runs are parked")
    before = state_of(site)

    own_valkey.kill()
    own_valkey.restart()

    after = state_of(site)
    assert after.state in ("open", "half_open")
    assert after.parked >= before.parked
    partner.come_back()
    assert_all_ended_once(site, keys)
    wait_for_state(site, "closed")


def test_calls_pass_while_its_server_is_away(own_valkey, new_site, partner, tmp_path):
    with running(ValkeyServer(tmp_path / "state")) as state_server:
        site = new_site(own_valkey.url, STATE_URL=state_server.url)
        worker = site.start_worker(processes=2)
        keys = publish(site, partner, count=8)
        wait_for_state(site, "open")

        state_server.kill()
        partner.come_back()

        assert_all_ended_once(site, [*keys, *publish(site, partner, count=40, prefix="unguarded")])
        told = worker.log_events("circuit breakers are not asked, calls pass")
        # one for each process, and not one for each call
        assert 1 <= len(told) <= 2

        # and guarded again as soon as it is back
        state_server.restart()
        partner.go_down()
        more = publish(site, partner, prefix="guarded")
        wait_for_state(site, "open", "half_open")
        wait_until(lambda: state_of(site).parked > 0, timeout_seconds=30, what="runs are parked")
        partner.come_back()
        assert_all_ended_once(site, more)
