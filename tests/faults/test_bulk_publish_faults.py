"""`enqueue_many` on a real broker: everything arrives once, or the account of what arrived is right."""

import pytest

from taskyard.errors import BulkPublishError
from tests.support.envelopes import task_ids
from tests.support.relay import CuttingRelay

pytestmark = pytest.mark.faults
CHUNK = 500


@pytest.fixture
def site(own_broker, new_site):
    return new_site(own_broker.url)


def calls(count):
    return ((f"bulk {number}",) for number in range(count))


def test_two_thousand_calls_arrive_once_each_and_in_order(own_broker, site):
    result = site.tasks["probe.record"].enqueue_many(calls(2000), priority=5)

    assert len(set(result.task_ids)) == len(result) == 2000
    assert task_ids(own_broker.client(), "default") == list(result.task_ids)


def test_bulk_calls_run(own_valkey, new_site):
    site = new_site(own_valkey.url)
    site.start_worker(processes=2)

    result = site.tasks["probe.record"].enqueue_many(calls(50), chunk_size=20, queue="high")

    for number in range(50):
        site.history.wait_for_end(f"bulk {number}")
    ends = site.history.records("end")
    assert sorted(run["task_id"] for run in ends) == sorted(result.task_ids)
    assert {run["queue"] for run in ends} == {"high"}


def test_a_broker_that_dies_between_two_chunks_leaves_an_exact_account(own_broker, site):
    def calls_and_a_death():
        for number, call in enumerate(calls(2000)):
            if number == 2 * CHUNK + 1:
                own_broker.kill()
            yield call

    with pytest.raises(BulkPublishError) as caught:
        site.tasks["probe.record"].enqueue_many(calls_and_a_death(), chunk_size=CHUNK)

    own_broker.restart()
    arrived = task_ids(own_broker.client(), "default")
    account = caught.value
    assert len(account.sent) == 2 * CHUNK
    assert len(account.unsent) + len(account.uncertain) == CHUNK
    assert arrived == list(account.sent)


@pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
def test_a_line_that_is_cut_within_a_chunk_leaves_that_chunk_uncertain(own_valkey, new_site, share):
    """Part of the chunk has arrived, and nobody can tell which part: never sent, never unsent."""
    site = new_site(own_valkey.url)
    one_chunk = measure(site, own_valkey)
    with CuttingRelay(own_valkey.port, cut_after_bytes=int(one_chunk * (1 + share))) as relay:
        cut_site = new_site(relay.url)

        with pytest.raises(BulkPublishError) as caught:
            cut_site.tasks["probe.record"].enqueue_many(calls(3 * CHUNK), chunk_size=CHUNK)

        assert relay.was_cut
    account = caught.value
    arrived = task_ids(own_valkey.client(), "default")
    assert len(account.sent) == len(account.uncertain) == CHUNK
    assert account.unsent == ()
    assert arrived[:CHUNK] == list(account.sent)
    assert set(arrived[CHUNK:]) <= set(account.uncertain)
    assert 0 <= len(arrived) - CHUNK < CHUNK


def measure(site, broker):
    """Return about how many bytes a chunk is on the wire."""
    before = broker.client().info("stats")["total_net_input_bytes"]
    site.tasks["probe.record"].enqueue_many(calls(CHUNK), chunk_size=CHUNK)
    size = broker.client().info("stats")["total_net_input_bytes"] - before
    broker.client().delete("default")
    return size


def test_a_frozen_broker_ends_a_bulk_call_within_the_budget_of_a_chunk(own_valkey, new_site):
    console = new_site(own_valkey.url, PUBLISH_TIMEOUT_SECONDS=1).start_console()
    assert len(console.value("publish_many", count=10, chunk_size=5)["sent"]) == 10
    own_valkey.freeze()

    account = console.run("publish_many", count=20, chunk_size=10)

    own_valkey.thaw()
    assert account.seconds < 1.5
    assert account.value["sent"] == []
    assert len(account.value["unsent"]) + len(account.value["uncertain"]) == 10
    assert not set(account.value["unsent"]) & set(task_ids(own_valkey.client(), "default"))
