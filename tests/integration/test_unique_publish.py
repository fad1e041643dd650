"""Equal calls on a real broker: one message of many publishers, and what a real worker does with the rest."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from celery import chord

from taskyard.transport.queues import delayed, depth
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration

PROCESSES, THREADS = 4, 20


@pytest.fixture(scope="module")
def site(valkey, shared_site):
    return shared_site(valkey.url, KEY_PREFIX="runs:", MAX_WORKER_LOSSES=0)


@pytest.fixture(scope="module")
def worker(site):
    return site.start_worker(processes=2)


@pytest.fixture
def quiet_site(valkey, new_site):
    """A site without a worker; a publish may wait for long, since two processors share the work."""
    return new_site(valkey.url, KEY_PREFIX="quiet:", PUBLISH_TIMEOUT_SECONDS=30)


def info_of(result):
    wait_until(lambda: result.state == "REVOKED", timeout_seconds=20, what="the call ends as cancelled")
    return str(result.info)


def assert_free(site, task, key):
    """Wait until an equal call is published."""
    wait_until(
        lambda: not site.tasks[task].apply_async((key, "success")).is_duplicate,
        timeout_seconds=20,
        what=f"the key {key} of {task} is free",
    )


def test_many_publishers_at_once_publish_one_message(quiet_site, valkey):
    gate = quiet_site.new_gate()
    with ThreadPoolExecutor(PROCESSES) as pool:
        consoles = list(pool.map(lambda _: quiet_site.start_console(), range(PROCESSES)))
        answers = [
            pool.submit(
                console.value,
                "publish_from_threads",
                task="probe.throttled",
                args=["one"],
                threads=THREADS,
                gate=str(gate),
                timeout_seconds=60,
            )
            for console in consoles
        ]
        gate.open()
        results = [result for answer in answers for result in answer.result()]

    assert len(results) == PROCESSES * THREADS
    assert depth(valkey.client(), "default", prefix="quiet:") == 1
    assert len({result["id"] for result in results}) == 1
    assert sorted(result["is_duplicate"] for result in results) == [False] + [True] * (len(results) - 1)


@pytest.mark.parametrize("kind", ["success", "failure", "cancel", "die", "overrun"])
def test_until_its_end_a_call_is_unique_whatever_the_end(site, worker, kind):
    key = f"ends by {kind}"
    site.tasks["probe.throttled_end"].delay(key, kind)
    site.history.wait_for_start(key)

    assert_free(site, "probe.throttled_end", key)


def test_a_snoozed_call_has_not_ended(site, worker):
    first = site.tasks["probe.throttled_end"].delay("snoozed", "snooze")
    worker.wait_for_log("task snoozed", task_id=first.id)

    assert site.tasks["probe.throttled_end"].delay("snoozed", "success").is_duplicate


def test_a_call_that_expires_before_it_runs_has_ended(site, worker):
    site.tasks["probe.throttled_end"].apply_async(("expired", "success"), countdown=1, expires=0.5)

    assert_free(site, "probe.throttled_end", "expired")


@pytest.mark.parametrize("until", ["start", "end"])
def test_an_equal_call_during_the_run(site, worker, until):
    gate, key = site.new_gate(), f"running until {until}"
    site.tasks["probe.throttled"].apply_async((key, 1, str(gate)), unique_until=until)
    site.history.wait_for_start(key)

    second = site.tasks["probe.throttled"].apply_async((key, 2), unique_until=until)

    gate.open()
    assert second.is_duplicate == (until == "end")
    site.history.wait_for_end(key, count=1 if until == "end" else 2)


def test_the_last_debounced_call_runs_once_the_calls_have_ceased(site, worker):
    results = [site.tasks["probe.debounced"].delay("typed", value) for value in "abc"]

    (run,) = site.history.wait_for_end("typed")
    worker.wait_for_log("task cancelled", task_id=results[0].id)
    worker.wait_for_log("task cancelled", task_id=results[1].id)
    assert run["value"] == "c"
    assert run["task_id"] == results[2].id
    assert len(site.history.starts("typed")) == 1


def test_the_last_replacing_call_runs_in_place_of_those_that_wait(site, worker, valkey):
    gates = [site.new_gate(), site.new_gate()]
    for number, gate in enumerate(gates):
        # both processes are busy
        site.tasks["probe.hold"].delay(f"busy {number}", str(gate))
        site.history.wait_for_start(f"busy {number}")

    results = [site.tasks["probe.replaced"].delay("profile", value) for value in "abc"]
    for gate in gates:
        gate.open()

    (run,) = site.history.wait_for_end("profile")
    assert run["value"] == "c"
    assert [info_of(result) for result in results[:2]] == [f"replaced by {results[2].id}"] * 2
    assert len(site.history.starts("profile")) == 1


def test_equal_parts_of_a_chord_all_run(site, worker):
    """Left out, a part would never report, and the chord would wait for ever."""
    throttled = site.tasks["probe.throttled"]
    throttled.delay("part", "alone")

    body = chord([throttled.si("part", 1), throttled.si("part", 1)], throttled.si("part", "body")).delay()

    assert body.get(timeout=30) is None
    values = sorted(str(record["value"]) for record in site.history.wait_for_end("part", count=4))
    assert values == ["1", "1", "alone", "body"]


def test_a_delayed_call_is_one_message(quiet_site, valkey):
    task = quiet_site.tasks["probe.throttled"]

    calls = [task.apply_async(("later",), countdown=60) for _ in range(3)]

    assert [call.is_duplicate for call in calls] == [False, True, True]
    assert delayed(valkey.client(), "default", prefix="quiet:") == 1
