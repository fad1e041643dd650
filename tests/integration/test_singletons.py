"""One run at a time by key, on two real workers."""

from itertools import pairwise

import pytest

from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module", params=["broker", "database"])
def site(request, valkey, shared_site):
    state = {} if request.param == "broker" else {"STATE_URL": "django-db"}
    # the workers of the other one live on the same server
    return shared_site(valkey.url, KEY_PREFIX=f"{request.param}:", **state)


@pytest.fixture(scope="module", autouse=True)
def workers(site):
    started = [
        site.start_worker(is_ready=False, processes=2, name=f"{name}@tests") for name in ("first", "second")
    ]
    for worker in started:
        worker.wait_until_ready()
    return started


def info_of(result):
    wait_until(lambda: result.state == "REVOKED", timeout_seconds=20, what="the call ends as cancelled")
    return str(result.info)


def overlaps(history, key):
    """Return the pairs of runs of which the second began before the first had ended."""
    starts = sorted(history.starts(key), key=lambda record: record["at"])
    ends = {record["value"]: record["at"] for record in history.ends(key)}
    return [
        (one["value"], other["value"]) for one, other in pairwise(starts) if other["at"] < ends[one["value"]]
    ]


def test_all_calls_of_a_key_run_and_never_two_at_once(site, workers):
    count = 20
    for number in range(count):
        site.tasks["probe.one_at_a_time"].delay("busy", number, seconds=0.03)

    site.history.wait_for_end("busy", count=count, timeout_seconds=90)
    assert sorted(record["value"] for record in site.history.ends("busy")) == list(range(count))
    assert len(site.history.starts("busy")) == count
    assert overlaps(site.history, "busy") == []
    assert all(record["is_held"] for record in site.history.ends("busy"))
    fences = [record["fence"] for record in sorted(site.history.starts("busy"), key=lambda r: r["at"])]
    assert fences == sorted(set(fences))
    assert any(worker.log_events("task snoozed", task="probe.one_at_a_time") for worker in workers)


def test_another_key_runs_beside_it(site):
    gate = site.new_gate()
    site.tasks["probe.one_at_a_time"].delay("held", 1, str(gate))
    site.history.wait_for_start("held")

    site.tasks["probe.one_at_a_time"].delay("free", 1)

    site.history.wait_for_end("free")
    gate.open()
    site.history.wait_for_end("held")


def test_skip_ends_the_call_and_says_who_has_the_lock(site, workers):
    gate = site.new_gate()
    first = site.tasks["probe.skip_if_running"].delay("skipped", 1, str(gate))
    site.history.wait_for_start("skipped")

    second = site.tasks["probe.skip_if_running"].delay("skipped", 2)

    text = info_of(second)
    gate.open()
    assert text.startswith(f"skipped: held by probe.skip_if_running[{first.id}] on ")
    assert "@tests since 20" in text
    (line,) = wait_until(
        lambda: [e for worker in workers for e in worker.log_events("task cancelled", task_id=second.id)],
        timeout_seconds=10,
        what="the end is logged",
    )
    assert line["reason"] == text
    assert len(site.history.wait_for_end("skipped")) == 1


def test_the_newest_replaces_the_one_that_waits(site):
    gate = site.new_gate()
    site.tasks["probe.newest_waits"].delay("replaced", 0, str(gate))
    site.history.wait_for_start("replaced")

    first, second, newest = (site.tasks["probe.newest_waits"].delay("replaced", n) for n in (1, 2, 3))

    # the first may have come up before the newest was there
    assert info_of(first) in (f"replaced by {second.id}", f"replaced by {newest.id}")
    assert info_of(second) == f"replaced by {newest.id}"
    gate.open()
    ended = site.history.wait_for_end("replaced", count=2)
    assert [record["value"] for record in ended] == [0, 3]


@pytest.mark.parametrize("kind", ["success", "failure", "cancel", "snooze"])
def test_the_lock_is_free_as_soon_as_the_run_has_ended(site, workers, kind):
    first = site.tasks["probe.exclusive_end"].delay(f"ends by {kind}", kind)
    site.history.wait_for_start(f"ends by {kind}")

    second = site.tasks["probe.exclusive_end"].delay(f"ends by {kind}", "success")

    # a lease lasts for ten
    runs = site.history.wait_for_start(f"ends by {kind}", count=2, timeout_seconds=8)
    assert [run["task_id"] for run in runs] == [first.id, second.id]
