"""A circuit breaker around a partner that goes down, with real workers: opened, parked, probed, closed."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys

import pytest

from taskyard.breakers import overview
from taskyard.breakers.store import breaker_store
from tests.support.breakers import Partner
from tests.support.waiting import wait_until
from tests.support.workers import ROOT

pytestmark = pytest.mark.integration

TASKS = 40
PROCESSES = 4
# The task that knows its partner at the declaration, and the one that knows it only at run time.
WAYS = [("probe.call_partner", (), "partner"), ("probe.call_host", ("a.example",), "host:a.example")]


@pytest.fixture(scope="module")
def site(valkey, shared_site):
    return shared_site(valkey.url, LEASE_SECONDS=1)


@pytest.fixture(scope="module", autouse=True)
def worker(site):
    return site.start_worker(processes=PROCESSES)


@pytest.fixture
def partner(site, tmp_path):
    """A partner whose breakers have seen nothing yet."""
    for _, _, name in WAYS:
        breaker_store(site.app.settings).reset(name, who="the test")
    return Partner(tmp_path / "partner")


@pytest.fixture
def lines(worker):
    """Return the log lines since the beginning of the test."""
    before = len(worker.log_events())
    return lambda: worker.log_events()[before:]


def manage(site, *command):
    """Run a command of the project, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=ROOT,
        env=site.environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def state_of(site, name):
    return next((state for state in overview(site.app.settings) if state.name == name), None)


def wait_for_state(site, name, *wanted):
    wait_until(
        lambda: getattr(state_of(site, name), "state", None) in wanted,
        timeout_seconds=30,
        what=f"the breaker {name} is {' or '.join(wanted)}",
    )


def publish(site, partner, way, *, count=TASKS, prefix):
    task, arguments, _ = way
    keys = [f"{prefix} {task} {number}" for number in range(count)]
    for key in keys:
        site.tasks[task].delay(key, str(partner), *arguments)
    return keys


def starts_of(site, keys):
    wanted = set(keys)
    return [record for record in site.history.records("start") if record["key"] in wanted]


@pytest.mark.parametrize("way", WAYS, ids=["option", "block"])
def test_an_outage_of_the_partner_from_its_beginning_to_its_end(site, lines, partner, way):
    name = way[2]
    partner.go_down()
    keys = publish(site, partner, way, prefix="outage")

    # it opens, and everything is parked but the probes
    wait_for_state(site, name, "open", "half_open")
    wait_until(lambda: state_of(site, name).parked >= TASKS, timeout_seconds=30, what="all are parked")
    begun = len(starts_of(site, keys))
    assert begun < TASKS / 2

    # other tasks do not notice
    site.tasks["probe.record"].delay(f"beside {name}")
    site.history.wait_for_end(f"beside {name}")

    # one probes, and keeps its place for longer than its lease; nobody else begins
    partner.hold_calls()
    wait_until(lambda: len(starts_of(site, keys)) > begun, timeout_seconds=30, what="a run probes")
    wait_for_state(site, name, "half_open")
    begun, parked = len(starts_of(site, keys)), state_of(site, name).parked
    wait_until(
        lambda: state_of(site, name).parked >= parked + 200, timeout_seconds=60, what="the others ask again"
    )
    assert len(starts_of(site, keys)) == begun
    assert state_of(site, name).probes == 1

    # it fails, and the next ones succeed: all of them end, once
    partner.answer_calls()
    partner.come_back()
    for key in keys:
        site.history.wait_for_end(key, timeout_seconds=60)
    wait_for_state(site, name, "closed")
    assert [key for key in keys if len(site.history.ends(key)) != 1] == []
    assert site.dead_letters.rows() == []

    # being parked has used up no attempt
    for key in keys:
        assert [run["retries"] for run in site.history.starts(key)] == list(
            range(len(site.history.starts(key)))
        )
        assert len({run["task_id"] for run in site.history.starts(key)}) == 1

    # and each change was told once
    changes = [line for line in lines() if line["message"] == "circuit breaker changed"]
    assert {change["breaker"] for change in changes} == {name}
    states = [(change["before"], change["after"]) for change in changes]
    assert states[:2] == [("closed", "open"), ("open", "half_open")]
    # that it has closed is told when the next run asks, if any does
    assert [change for change in states if change[1] != "closed"][-1] == ("half_open", "recovering")
    assert all(then[1] == now[0] for then, now in itertools.pairwise(states))


def test_parked_runs_of_the_option_do_not_fill_the_log(site, lines, partner):
    partner.go_down()
    keys = publish(site, partner, WAYS[0], prefix="quiet")
    wait_until(
        lambda: state_of(site, "partner") and state_of(site, "partner").parked >= 2 * TASKS,
        timeout_seconds=30,
        what="many are parked",
    )
    partner.come_back()
    for key in keys:
        site.history.wait_for_end(key, timeout_seconds=60)

    said = [line["message"] for line in lines() if line.get("task") == "probe.call_partner"]
    # at most one a process and minute
    assert said.count("tasks parked") <= PROCESSES
    assert said.count("task snoozed") == 0
    assert said.count("task started") == len(starts_of(site, keys))


def test_one_opened_by_hand_parks_until_it_is_reset(site, partner):
    console = manage(site, "breakers", "open", "partner", "--why", "their maintenance", "--who", "ada")
    assert "partner is open until" in console
    keys = publish(site, partner, WAYS[0], count=10, prefix="by hand")
    wait_until(lambda: state_of(site, "partner").parked >= 10, timeout_seconds=30, what="all are parked")

    (row,) = [
        row for row in json.loads(manage(site, "breakers", "list", "--json")) if row["name"] == "partner"
    ]
    assert (row["state"], row["forced_by"], row["forced_because"]) == (
        "forced_open",
        "ada",
        "their maintenance",
    )
    assert starts_of(site, keys) == []
    assert json.loads(manage(site, "breakers", "reset", "partner", "--json"))["before"] == "forced_open"
    assert state_of(site, "partner") is None
