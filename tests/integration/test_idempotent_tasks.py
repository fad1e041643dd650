"""Idempotent tasks on real workers: one run a key, whatever the pool and the store."""

from __future__ import annotations

import pytest

from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
LEASE_SECONDS = 2


@pytest.fixture(scope="module")
def site(valkey, shared_site):
    return shared_site(valkey.url, LEASE_SECONDS=LEASE_SECONDS)


@pytest.fixture(scope="module", params=["prefork", "threads"])
def worker(request, site):
    worker = site.start_worker(pool=request.param, processes=4)
    yield worker
    worker.terminate()
    worker.wait_for_exit(30)


@pytest.fixture
def publish(site, worker, request):
    """Call a probe task under a key of this test's own."""

    def publish(task, *args, gate=None, **kwargs):
        return site.tasks[task].delay(publish.key, *args, *([] if gate is None else [str(gate)]), **kwargs)

    publish.key = request.node.name
    return publish


def fences(records):
    return [record["fence"] for record in records]


def test_a_duplicate_of_a_running_call_waits_and_gets_its_result(site, worker, publish):
    gate = site.new_gate()
    first = publish("probe.once", gate=gate)
    (run,) = site.history.wait_for_start(publish.key)
    second = publish("probe.once", gate=gate)
    (line, *_) = worker.wait_for_log("duplicate snoozed", task_id=second.id)

    gate.open()

    assert first.get(timeout=30) == second.get(timeout=30) == {"task_id": first.id, "fence": run["fence"]}
    assert len(site.history.starts(publish.key)) == 1
    assert (line["held_by"], line["key"]) == (first.id, f"idempotent:probe.once:{publish.key}")
    assert worker.log_events("duplicate returned", task_id=second.id)


def test_a_duplicate_of_a_finished_call_gets_its_result_at_once(site, publish):
    gate = site.new_gate()
    gate.open()
    first = publish("probe.once", gate=gate)
    result = first.get(timeout=30)

    again = [publish("probe.once", gate=gate) for _ in range(5)]

    assert [duplicate.get(timeout=30) for duplicate in again] == [result] * 5
    assert len(site.history.starts(publish.key)) == 1


def test_a_lease_is_renewed_for_as_long_as_the_run_lasts(site, worker, publish):
    gate = site.new_gate()
    first = publish("probe.once", gate=gate)
    site.history.wait_for_start(publish.key)
    second = publish("probe.once", gate=gate)
    # each of them is later than the last by as long as the run has lasted: the fourth is later than a lease
    worker.wait_for_log("duplicate snoozed", task_id=second.id, count=4)

    gate.open()

    assert second.get(timeout=30)["task_id"] == first.id
    assert [record["is_held"] for record in site.history.wait_for_end(publish.key)] == [True]
    assert len(site.history.starts(publish.key)) == 1


def test_a_duplicate_is_skipped_where_declared_and_says_who_runs(site, publish):
    gate = site.new_gate()
    first = publish("probe.once_or_skip", gate=gate)
    site.history.wait_for_start(publish.key)

    second = publish("probe.once_or_skip", gate=gate)

    wait_until(lambda: second.state == "REVOKED", timeout_seconds=30, what="the duplicate is skipped")
    assert f"skipped: held by probe.once_or_skip[{first.id}] on " in str(second.result)
    gate.open()
    assert first.get(timeout=30)["task_id"] == first.id
    assert site.dead_letters.rows(task_id=second.id) == []


def test_many_calls_at_once_are_one_run(site, publish):
    gate = site.new_gate()
    gate.open()

    calls = [publish("probe.once", gate=gate) for _ in range(30)]

    results = [call.get(timeout=60) for call in calls]
    assert len({str(result) for result in results}) == 1
    assert results[0]["task_id"] in {call.id for call in calls}
    assert len(site.history.starts(publish.key)) == 1


def test_a_retry_takes_the_key_of_the_run_that_failed(site, worker, publish):
    first = publish("probe.once_with_failures", 2)

    site.history.wait_for_end(publish.key)

    assert [record["retries"] for record in site.history.starts(publish.key)] == [0, 1, 2]
    assert worker.log_events("duplicate snoozed", task_id=first.id) == []


def test_a_call_whose_last_run_has_failed_can_be_made_again(site, publish):
    failed = publish("probe.once_with_failures", 99)
    site.dead_letters.wait_for(task_id=failed.id)

    publish("probe.once_with_failures", 0)

    assert len(site.history.wait_for_end(publish.key)) == 1


def test_a_call_without_a_key_is_one_dead_letter_and_no_run(site, worker):
    result = site.tasks["probe.once"].delay(None, "")

    (row,) = site.dead_letters.wait_for(task_id=result.id)

    assert row["reason"] == "not_retryable"
    assert "has no key for this call: 'key' gives None or an empty text" in row["error"]
    assert site.history.records("start", task_id=result.id) == []


def test_two_runs_one_after_the_other_have_growing_fences(site, publish):
    gate = site.new_gate()
    gate.open()
    publish("probe.once", gate=gate).get(timeout=30)
    claim = f"idempotent:probe.once:{publish.key}"
    assert site.app.state_store.force_release(claim).state == "done"

    publish("probe.once", gate=gate).get(timeout=30)

    first, second = fences(site.history.ends(publish.key))
    assert first < second


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_without_redis_the_database_keeps_the_claims(own_valkey, new_site, database, request):
    url = None
    if database == "postgresql":
        name = request.getfixturevalue("postgres_database")
        url = request.getfixturevalue("postgres").url(name)
    site = new_site(own_valkey.url, database_url=url, STATE_URL="django-db", LEASE_SECONDS=LEASE_SECONDS)
    worker = site.start_worker(processes=2)
    gate = site.new_gate()
    first = site.tasks["probe.once"].delay("in the database", str(gate))
    site.history.wait_for_start("in the database")
    second = site.tasks["probe.once"].delay("in the database", str(gate))
    worker.wait_for_log("duplicate snoozed", task_id=second.id, count=3)

    gate.open()

    assert first.get(timeout=30) == second.get(timeout=30)
    assert [record["is_held"] for record in site.history.ends("in the database")] == [True]
    assert len(site.history.starts("in the database")) == 1
