"""A task is cancelled, wherever it is: it does not start, or it ends; no retry, no dead letter."""

from __future__ import annotations

import time

import pytest
from celery import chain, chord

from taskyard import cancel
from taskyard.transport.queues import delayed, depth, leased
from tests.support.monitoring import monitoring_events
from tests.support.tracked_rows import tracked_row, wait_for_row
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
# Longer than a long task may take to ask.
GRACE_SECONDS = 2.0


@pytest.fixture(scope="module")
def site(valkey, shared_site):
    return shared_site(valkey.url, CANCEL_GRACE_SECONDS=GRACE_SECONDS)


@pytest.fixture(scope="module", autouse=True)
def worker(site):
    return site.start_worker(processes=2, queue="default")


@pytest.fixture
def cancel_task(site):
    """Cancel a task from outside of the project's processes, with another database."""

    def call(result, **options):
        return cancel(result.id, by="ops", reason="wrong file", app=site.app, **options)

    return call


@pytest.fixture
def events(site, worker):
    """Monitoring events of tasks, as Flower receives them."""
    with monitoring_events(site) as received:
        yield received


def assert_ended_as_cancelled(site, worker, result, *, state=True):
    ends = worker.wait_for_log("task cancelled", task_id=result.id)
    assert [end["reason"] for end in ends] == ["cancelled by ops: wrong file"]
    if state:
        wait_until(lambda: result.state == "REVOKED", timeout_seconds=10, what="its state says so")
    wait_for_row(site, result.id, lambda row: row["state"] == "cancelled", what="cancelled")
    assert site.dead_letters.rows(task_id=result.id) == []
    client = site.app.connection_for_read().default_channel.plain_client
    wait_until(lambda: leased(client) == {}, timeout_seconds=10, what="its message is acknowledged")
    for queue in ("default", "low"):
        assert depth(client, queue) == delayed(client, queue) == 0


def test_a_delayed_task_never_starts_and_its_end_does_not_wait(site, worker, cancel_task):
    result = site.tasks["probe.part"].apply_async(("delayed", ""), countdown=3600)

    outcome = cancel_task(result)

    assert (outcome.state, outcome.is_first, outcome.is_confirmed) == ("waiting", True, True)
    assert (outcome.task_name, outcome.queue) == ("probe.part", "default")
    assert_ended_as_cancelled(site, worker, result)
    assert site.history.starts("delayed") == []


def test_a_task_between_two_retries_never_starts_again(site, worker, cancel_task):
    result = site.tasks["probe.fail_later"].delay("retried")
    worker.wait_for_log("task retried", task_id=result.id)

    outcome = cancel_task(result)

    assert outcome.state == "waiting"
    assert_ended_as_cancelled(site, worker, result, state=False)
    assert len(site.history.starts("retried")) == 1


def test_a_snoozed_task_never_starts_again(site, worker, cancel_task):
    result = site.tasks["probe.snooze_for_long"].delay("snoozed")
    worker.wait_for_log("task snoozed", task_id=result.id)

    assert cancel_task(result).state == "waiting"

    assert_ended_as_cancelled(site, worker, result, state=False)
    assert len(site.history.starts("snoozed")) == 1


def test_a_waiting_task_never_starts(site, worker, cancel_task):
    """Also not on a worker that was not there when it was cancelled."""
    result = site.tasks["probe.part"].apply_async(("waiting", ""), queue="low")
    other = site.tasks["probe.record"].apply_async(("beside it",), queue="low")

    outcome = cancel_task(result)

    assert (outcome.state, outcome.queue) == ("waiting", "low")
    late = site.start_worker(queue="low")
    site.history.wait_for_end("beside it")
    assert_ended_as_cancelled(site, late, result)
    assert site.history.starts("waiting") == []
    assert late.log_events("task succeeded", task_id=other.id)
    late.terminate()
    late.wait_for_exit(30)


def test_a_reserved_task_never_starts(site, cancel_task):
    busy = site.start_worker(queue="high", processes=1, prefetch=4)
    gate = site.new_gate()
    held = site.tasks["probe.hold"].apply_async(("before it", str(gate)), queue="high")
    site.history.wait_for_start("before it")
    result = site.tasks["probe.part"].apply_async(("reserved", ""), queue="high")
    client = site.app.connection_for_read().default_channel.plain_client
    wait_until(lambda: leased(client) == {"high": 2}, timeout_seconds=10, what="both are reserved")

    outcome = cancel_task(result)

    assert (outcome.state, outcome.is_confirmed) == ("waiting", True)
    assert outcome.worker.startswith("high@")
    gate.open()
    busy.wait_for_log("task succeeded", task_id=held.id)
    assert_ended_as_cancelled(site, busy, result)
    assert site.history.starts("reserved") == []
    busy.terminate()
    busy.wait_for_exit(30)


def test_a_worker_that_could_not_listen_asks_before_it_starts_the_next_task(site, cancel_task):
    """A solo worker runs its tasks where it would hear of cancellations."""
    gate = site.new_gate()
    site.tasks["probe.hold"].apply_async(("solo before it", str(gate)), queue="critical")
    result = site.tasks["probe.part"].apply_async(("solo reserved", ""), queue="critical")
    solo = site.start_worker(queue="critical", pool="solo", prefetch=4, is_ready=False)
    site.history.wait_for_start("solo before it", timeout_seconds=60)

    outcome = cancel_task(result)
    gate.open()

    assert (outcome.state, outcome.is_confirmed) == ("unknown", False)
    assert_ended_as_cancelled(site, solo, result)
    assert site.history.starts("solo reserved") == []
    solo.terminate()
    solo.wait_for_exit(30)


def test_a_running_long_task_ends_at_its_next_report(site, worker, cancel_task):
    result = site.tasks["probe.long"].delay("cooperative", str(site.new_gate()))
    site.history.wait_for_start("cooperative")

    outcome = cancel_task(result)

    assert (outcome.state, outcome.is_confirmed) == ("running", True)
    assert_ended_as_cancelled(site, worker, result)
    assert len(site.history.starts("cooperative")) == 1
    assert site.history.ends("cooperative") == []
    assert worker.log_events("cancelled task goes on: it gets its soft time limit", task_id=result.id) == []


def test_flower_is_told_once(site, worker, cancel_task, events):
    result = site.tasks["probe.part"].apply_async(("for flower", ""), countdown=3600)

    cancel_task(result)

    assert_ended_as_cancelled(site, worker, result)

    def types():
        return [event["type"] for event in events if event.get("uuid") == result.id]

    wait_until(lambda: "task-revoked" in types(), timeout_seconds=10, what="the event has come")
    assert types() == ["task-received", "task-started", "task-revoked"]


def test_a_long_task_that_asks_and_returns_counts_as_cancelled(site, worker, cancel_task):
    result = site.tasks["probe.long_polite"].delay("polite")
    site.history.wait_for_start("polite")

    assert cancel_task(result).state == "running"

    assert_ended_as_cancelled(site, worker, result)
    assert len(site.history.ends("polite")) == 1


def test_a_long_task_that_swallows_its_cancellation_and_returns_is_cancelled(site, worker, cancel_task):
    result = site.tasks["probe.long_deaf"].delay("deaf")
    site.history.wait_for_start("deaf")

    cancel_task(result)

    assert_ended_as_cancelled(site, worker, result)
    assert [record["error"] for record in site.history.records("swallowed", key="deaf")] == [
        "CancelRequested"
    ]


def test_a_plain_task_that_is_killed_at_its_hard_limit_is_cancelled_all_the_same(site, worker, cancel_task):
    result = site.tasks["probe.stubborn"].apply_async(
        ("killed", str(site.new_gate())), soft_time_limit=3.9, time_limit=4
    )
    site.history.wait_for_start("killed")
    assert cancel_task(result).state == "running"

    worker.wait_for_log("cancelled task killed at its hard time limit", task_id=result.id)

    wait_until(lambda: result.state == "REVOKED", timeout_seconds=10, what="its state says so")
    client = site.app.connection_for_read().default_channel.plain_client
    wait_until(lambda: leased(client) == {}, timeout_seconds=10, what="its message is acknowledged")
    assert site.dead_letters.rows(task_id=result.id) == []
    assert len(site.history.starts("killed")) == 1


def test_a_running_plain_task_gets_its_soft_limit_after_the_grace(site, worker, cancel_task):
    result = site.tasks["probe.part"].delay("plain", str(site.new_gate()))
    (run,) = site.history.wait_for_start("plain")

    assert cancel_task(result).state == "running"

    cancelled_at = time.monotonic()
    assert_ended_as_cancelled(site, worker, result)
    assert time.monotonic() - cancelled_at < 10
    assert site.history.ends("plain") == []
    assert run["pid"] in worker.children()


def test_a_plain_task_that_swallows_that_and_returns_is_cancelled_all_the_same(site, worker, cancel_task):
    gate = site.new_gate()
    result = site.tasks["probe.stubborn"].delay("stubborn", str(gate))
    site.history.wait_for_start("stubborn")

    cancel_task(result)
    wait_until(
        lambda: site.history.records("swallowed", key="stubborn"), timeout_seconds=10, what="it swallows"
    )
    gate.open()

    site.history.wait_for_end("stubborn")
    assert_ended_as_cancelled(site, worker, result)
    assert len(site.history.starts("stubborn")) == 1


def test_a_plain_task_that_ends_within_the_grace_has_succeeded(site, worker, cancel_task):
    gate = site.new_gate()
    result = site.tasks["probe.part"].delay("in time", str(gate))
    site.history.wait_for_start("in time")
    rows_before = tracked_row(site, result.id)

    console = site.start_console()
    assert console.run("cancel", task_id=result.id).value["state"] == "running"
    gate.open()

    assert result.get(timeout=10) == "in time"
    assert rows_before is None
    row = wait_for_row(site, result.id, lambda row: row["finished_at"], what="ended")
    assert (row["state"], row["cancelled_by"], row["cancel_reason"]) == ("succeeded", "console", "a test")


def test_a_task_that_has_ended_is_finished(site, cancel_task):
    result = site.tasks["probe.add"].delay(1, 2)
    assert result.get(timeout=20) == 3

    assert cancel_task(result).state == "finished"


def test_a_task_that_nobody_knows_is_no_error(site):
    outcome = cancel("no such task", app=site.app)

    assert (outcome.state, outcome.is_first) == ("unknown", True)


def test_the_first_who_cancels_is_named(site, worker, cancel_task):
    result = site.tasks["probe.part"].apply_async(("twice", ""), queue="bulk")

    assert cancel_task(result).is_first
    again = cancel(result.id, by="somebody else", app=site.app)

    assert (again.is_first, again.by, again.reason) == (False, "ops", "wrong file")


def test_what_follows_in_a_chain_is_not_published(site, worker, cancel_task):
    first = site.tasks["probe.part"].si("link", "").set(countdown=3600)
    last = chain(first, site.tasks["probe.after"].s(key="next link"), app=site.app).apply_async()

    assert cancel_task(last.parent).state == "waiting"

    assert_ended_as_cancelled(site, worker, last.parent)
    assert site.history.starts("next link") == []
    assert last.state == "PENDING"


def test_a_chord_is_told_that_a_part_does_not_come(site, worker, cancel_task):
    gate = site.new_gate()
    gate.open()
    part, after = site.tasks["probe.part"], site.tasks["probe.after"]
    parts = [part.si("good part", str(gate)), part.si("cancelled part", "").set(countdown=3600)]
    body = after.s(key="body").on_error(after.si(key="errback"))
    result = chord(parts, body, app=site.app).apply_async()
    site.history.wait_for_end("good part")

    assert cancel_task(result.parent.results[1]).state == "waiting"

    site.history.wait_for_end("errback")
    wait_until(lambda: result.state == "FAILURE", timeout_seconds=10, what="the chord has failed")
    assert site.history.starts("body") == site.history.starts("cancelled part") == []


def test_no_waiting_task_starts_after_its_cancellation(site, worker):
    """Many short ones, cancelled while two processes work them off."""
    results = [site.tasks["probe.record"].delay(f"race {number}") for number in range(120)]
    outcomes, returned_at = {}, {}
    for number in range(119, 0, -2):
        outcomes[number] = cancel(results[number].id, app=site.app)
        returned_at[number] = time.monotonic()

    for number in range(0, 120, 2):
        site.history.wait_for_end(f"race {number}")
    wait_until(lambda: leased_nothing(site), timeout_seconds=20, what="all is done")
    late = [
        (number, outcome.state)
        for number, outcome in outcomes.items()
        if any(run["at"] > returned_at[number] for run in site.history.starts(f"race {number}"))
    ]
    # one that has just been given to its process, which takes a millisecond to begin
    assert [one for one in late if one[1] != "running"] == []
    assert len(late) <= 2
    assert all(outcome.is_confirmed for outcome in outcomes.values())
    assert [number for number in outcomes if not site.history.starts(f"race {number}")], (
        "all had ended before"
    )


def leased_nothing(site):
    client = site.app.connection_for_read().default_channel.plain_client
    return depth(client, "default") == 0 and leased(client) == {}
