"""A marked argument appears in clear text in the message itself and nowhere else."""

import json
import threading

import pytest

from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
SECRET = "4929-9999-0000-1111"
MASK = "******"


@pytest.fixture(scope="module")
def site(valkey, shared_site):
    return shared_site(valkey.url, MAX_WORKER_LOSSES=1)


@pytest.fixture(scope="module")
def worker(site):
    """It logs all that it can, and reserves one task beside the one that runs."""
    return site.start_worker(processes=1, prefetch=2, settings={"LOG_LEVEL": "DEBUG"})


@pytest.fixture
def events(site, worker):
    """All monitoring events, as Flower receives them."""
    received, stop = [], threading.Event()

    def listen():
        with site.app.connection_for_read() as connection:
            receiver = site.app.events.Receiver(connection, handlers={"*": received.append})
            with receiver.consumer_context():
                for _ in receiver.consume(limit=None, timeout=None, wakeup=False, safety_interval=0.1):
                    if stop.is_set():
                        return

    threading.Thread(target=listen, daemon=True).start()
    wait_until(lambda: received, timeout_seconds=30, what="the first heartbeat of the worker has come")
    yield received
    stop.set()


def is_hidden(found):
    return SECRET not in json.dumps(found, default=str)


def test_inspect_and_events_show_a_mask(site, worker, events):
    gate = site.new_gate()
    hold = site.tasks["probe.hold_secret"]
    active = hold.delay("active", str(gate), SECRET, note="shown")
    site.history.wait_for_start("active")
    reserved = hold.delay("reserved", str(gate), card_number=SECRET, note="shown")
    inspect = site.app.control.inspect(timeout=2)

    (running,) = wait_until(
        lambda: [run for runs in (inspect.active() or {}).values() for run in runs],
        timeout_seconds=30,
        what="inspect shows the running task",
    )
    (waiting,) = wait_until(
        lambda: [run for runs in (inspect.reserved() or {}).values() for run in runs],
        timeout_seconds=30,
        what="inspect shows the reserved task",
    )
    gate.open()
    site.history.wait_for_end("reserved")
    wait_until(
        lambda: (
            {event["uuid"] for event in events if event["type"] == "task-succeeded"}
            >= {active.id, reserved.id}
        ),
        timeout_seconds=30,
        what="the events of both tasks have come",
    )

    assert (running["id"], waiting["id"]) == (active.id, reserved.id)
    for shown in (running, waiting, events):
        assert is_hidden(shown)
        assert "shown" in json.dumps(shown, default=str)
    assert MASK in json.dumps(running)
    assert MASK in json.dumps(waiting)
    received = [event for event in events if event["type"] == "task-received"]
    assert len(received) == 2
    assert all(MASK in event["args"] + event["kwargs"] for event in received)


def test_logs_dead_letters_and_stored_results_show_a_mask(site, valkey, worker):
    fail = site.tasks["probe.fail_secret"]
    positional = fail.apply_async(("positional", SECRET), ignore_result=False)
    named = fail.apply_async(("named",), {"card_number": SECRET, "note": "shown"}, ignore_result=False)

    rows = [site.dead_letters.wait_for(task_id=result.id)[0] for result in (positional, named)]
    for result in (positional, named):
        wait_until(
            lambda result=result: result.state == "FAILURE", timeout_seconds=30, what="the result is stored"
        )

    assert rows[0]["args"] == ["positional", MASK]
    assert rows[1]["kwargs"] == {"card_number": MASK, "note": "shown"}
    assert is_hidden(rows)
    stored = [valkey.client().get(f"celery-task-meta-{result.id}").decode() for result in (positional, named)]
    assert is_hidden(stored)
    assert [line for line in worker.lines if SECRET in line] == []


def test_a_secret_of_a_task_whose_process_dies_is_not_logged(site, worker):
    result = site.tasks["probe.die_with_secret"].delay("dies", SECRET)

    (row,) = site.dead_letters.wait_for(task_id=result.id)
    assert is_hidden(row)
    assert [line for line in worker.lines if SECRET in line] == []
