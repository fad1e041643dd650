"""`manage.py breakers` and the system check of breakers, as their users run them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from taskyard import Breaker
from taskyard.breakers.store import BreakerStore
from tests.support.breakers import Fleet, MovableClock
from tests.support.sites import probe_environment
from tests.support.workers import ROOT

pytestmark = pytest.mark.integration

PAYMENTS = Breaker("payments", minimum_calls=4, open_seconds=3600)


@pytest.fixture
def run(valkey, tmp_path):
    """Run a command of a project whose state is on the server; returns exit code, output and errors."""

    def run(*command, state_url=valkey.url):
        environment = probe_environment(tmp_path) | {
            "TASKYARD_STATE_URL": state_url,
            "DATABASE_URL": f"sqlite:///{tmp_path}/db",
        }
        done = subprocess.run(
            [sys.executable, "manage.py", *command],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.returncode, done.stdout, done.stderr

    valkey.client().flushall()
    return run


@pytest.fixture
def payments(valkey):
    return Fleet(BreakerStore(valkey.url), PAYMENTS, MovableClock())


def test_the_list_shows_what_an_operator_wants_to_know(run, payments):
    payments.open()
    payments.ask()
    payments.changed(name="mail", minimum_calls=20).call()
    payments.store.force_open("stock", why="their maintenance", who="ada")

    code, text, _ = run("breakers", "list")

    assert code == 0
    heading, mail, payments, stock = [line.split("  ") for line in text.splitlines()]
    assert [cell.strip() for cell in heading if cell] == [
        "breaker", "state", "since", "calls", "failed", "parked", "next probe", "why",
    ]  # fmt: skip
    assert [cell.strip() for cell in mail if cell.strip()][:2] == ["mail", "closed"]
    cells = [cell.strip() for cell in payments if cell.strip()]
    assert (cells[:2], cells[3:6]) == (["payments", "open"], ["4", "100%", "1"])
    assert cells[6].startswith("in 3")
    assert cells[7] == "last error PartnerError"
    assert [cell.strip() for cell in stock if cell.strip()][1] == "forced open"
    assert "by ada: their maintenance" in text


def test_the_list_for_machines(run, payments):
    payments.open()

    _, text, _ = run("breakers", "list", "--json")

    (row,) = json.loads(text)
    assert (row["name"], row["state"], row["failure_rate"]) == ("payments", "open", 1.0)
    assert (row["calls"], row["failures"], row["last_error"]) == (4, 4, "PartnerError")
    assert 3500 < row["next_probe_in_seconds"] <= 3600
    assert row["since"].endswith("+00:00")


def test_nothing_to_list(run):
    assert run("breakers", "list")[1] == "No breaker is open, and none had a call within the last hour.\n"
    assert run("breakers", "list", "--json")[1] == "[]\n"


def test_opening_says_what_happens_and_whether_the_name_is_known(run, payments):
    payments.call()

    code, text, told = run("breakers", "open", "payment", "--why", "their maintenance", "--who", "ada")

    assert code == 0
    assert text == (
        "payment is open until `breakers reset payment`: its tasks are parked, what runs goes on. "
        "No call has used this name within the last hour. Did you mean 'payments'?\n"
    )
    assert "circuit breaker changed" in told
    assert "by ada: their maintenance" in told


def test_resetting_what_is_not_known_is_an_error_with_a_suggestion(run, payments):
    payments.call()

    code, _, told = run("breakers", "reset", "payment")

    assert code == 1
    assert "Nothing is known of the breaker 'payment': it is closed. Did you mean 'payments'?" in told


def test_a_server_that_is_away_is_said_in_one_sentence(run):
    code, _, told = run("breakers", "list", state_url="redis://:secret@127.0.0.1:1/0")

    assert code == 1
    assert "The state store redis://:******@127.0.0.1:1/0 does not answer" in told
    assert "Traceback" not in told


def test_state_in_the_database_is_said_in_one_sentence(run):
    code, _, told = run("breakers", "list", state_url="django-db")

    assert code == 1
    assert "Circuit breakers need Redis or Valkey, but STATE_URL is 'django-db'." in told


def test_the_system_check_warns_of_breakers_that_never_open(run):
    code, _, told = run("check", state_url="django-db")

    assert code == 0
    assert "(taskyard.TY019) Task 'probe.call_partner' has a circuit breaker, which never opens" in told
    assert "TY019" not in run("check")[2]
