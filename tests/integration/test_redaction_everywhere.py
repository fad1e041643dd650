"""A marked argument appears in clear text in the message itself, as long as it waits, and nowhere else."""

import base64
import json
import re
from pathlib import Path

import pytest

from taskyard.conf import build_settings
from taskyard.sealing import unseal
from tests.probe_app.secrets import WAYS
from tests.support.envelopes import envelope
from tests.support.flower_process import FlowerProcess
from tests.support.monitoring import monitoring_events
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
SECRET = "4929-9999-0000-1111"
MASK = "******"
KEY = "a-key-of-these-tests-only"
MAX_WORKER_LOSSES = 1
# Ways in which Celery takes the process for lost.
LOST = ("exit",)


@pytest.fixture(scope="module")
def site(valkey, shared_site):
    return shared_site(
        valkey.url,
        MAX_WORKER_LOSSES=MAX_WORKER_LOSSES,
        ENCRYPTION_KEYS=json.dumps([KEY]),
        STATE_URL=valkey.url,
    )


@pytest.fixture(scope="module")
def worker(site):
    """It logs all that it can, and reserves one task beside the one that runs."""
    return site.start_worker(processes=1, prefetch=2, settings={"LOG_LEVEL": "DEBUG"})


@pytest.fixture(scope="module")
def flower(site, worker):
    flower = FlowerProcess(site.environment, log_file=site.directory / "flower.log")
    yield flower
    flower.discard()


@pytest.fixture(scope="module")
def events(site, worker):
    """All monitoring events, as Flower receives them."""
    with monitoring_events(site) as received:
        yield received


@pytest.fixture(scope="module", autouse=True)
def everything(site, valkey, worker, events, flower):
    """Every place where something may be shown, as text; looked through after all tests of this module."""

    def look():
        return {
            "log of the worker": "\n".join(worker.lines),
            "log of Flower": flower.log_file.read_text(),
            "events": json.dumps(events, default=str),
            "Redis": "\n".join(contents_of(valkey.client())),
            **files_of(site.directory),
        }

    yield look
    shown = {where: text for where, text in look().items() if shows(text)}
    assert shown.keys() == set(), {where: around(text) for where, text in shown.items()}


def shows(text):
    # a number without its separators is the same number
    return SECRET in text or SECRET.replace("-", "") in text


def around(text):
    return [text[max(0, m.start() - 200) : m.end() + 50] for m in re.finditer(r"4929-?9999", text)][:3]


def is_hidden(found):
    return not shows(json.dumps(found, default=str))


def contents_of(client):
    """Yield every key with all that it holds."""
    for key in client.scan_iter(count=1000):
        kind = client.type(key).decode()
        read = {
            "string": client.get,
            "list": lambda key: client.lrange(key, 0, -1),
            "hash": client.hgetall,
            "set": client.smembers,
            "zset": lambda key: client.zrange(key, 0, -1),
            "stream": client.xrange,
        }[kind]
        yield f"{key!r}: {read(key)!r}"


def files_of(directory: Path):
    """The database (also what it has deleted), histories and the rest, byte for byte."""
    return {
        str(path.relative_to(directory)): path.read_bytes().decode("latin-1")
        for path in directory.rglob("*")
        if path.is_file()
    }


def event_of(events, task_id, kind, *, count=1):
    """Wait for the events of a task of this kind, and return them."""
    return wait_until(
        lambda: (
            len(found := [e for e in list(events) if e["type"] == kind and e.get("uuid") == task_id]) >= count
            and found
        ),
        timeout_seconds=30,
        what=f"the event {kind} of {task_id} has come",
    )


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
    queried = inspect.query_task(active.id, reserved.id)
    gate.open()
    site.history.wait_for_end("reserved")
    for result in (active, reserved):
        event_of(events, result.id, "task-succeeded")

    assert (running["id"], waiting["id"]) == (active.id, reserved.id)
    for shown in (running, waiting, queried, events):
        assert is_hidden(shown)
        assert "shown" in json.dumps(shown, default=str)
    assert MASK in json.dumps(running)
    assert MASK in json.dumps(waiting)
    received = [event_of(events, result.id, "task-received")[0] for result in (active, reserved)]
    assert all(MASK in event["args"] + event["kwargs"] for event in received)


@pytest.mark.parametrize("way", WAYS)
def test_an_error_that_tells_is_masked_wherever_it_goes(site, valkey, worker, events, way):
    """Retried once, then a dead letter: log lines, events, the stored result, every attempt."""
    result = site.tasks["probe.tell"].delay(way, SECRET, way)

    (row,) = site.dead_letters.wait_for(task_id=result.id)
    wait_until(lambda: result.state == "FAILURE", timeout_seconds=30, what="the result is stored")
    failed = event_of(events, result.id, "task-failed")
    retried = [e for e in events if e["type"] == "task-retried" and e["uuid"] == result.id]

    stored = valkey.client().get(f"celery-task-meta-{result.id}").decode()
    lines = [line for line in worker.lines if result.id in line]
    for found in (row, failed, retried, stored, lines):
        assert is_hidden(found)
    assert not any("attempts" in event for event in events)
    assert row["args"] == [way, MASK, way]
    assert unseal(row["sealed"], build_settings({"ENCRYPTION_KEYS": [KEY]}))["args"] == [way, SECRET, way]
    runs = 1 if way in ("reject", "result") else 2
    assert len(site.history.starts(way)) == len(json.loads(row["attempts"])) == runs
    assert len(retried) == runs - 1
    if way not in ("exit", "json", "result"):
        assert MASK in row["error"] + row["traceback"]


def test_a_retry_that_the_task_asks_for_is_masked(site, worker, events):
    result = site.tasks["probe.tell_in_retry"].delay("in retry", SECRET)

    (row,) = site.dead_letters.wait_for(task_id=result.id)
    (retried,) = event_of(events, result.id, "task-retried")
    assert row["error"] == f"ComputedError: computed {MASK}"
    assert is_hidden([row, retried])
    assert len(json.loads(row["attempts"])) == 2


def test_what_hooks_tell_is_masked(site, worker, events):
    before = site.tasks["probe.tell_before"].delay(SECRET)
    after = site.tasks["probe.tell_after"].delay(SECRET)

    (row,) = site.dead_letters.wait_for(task_id=before.id)
    (failed,) = event_of(events, before.id, "task-failed")
    event_of(events, after.id, "task-succeeded")
    lines = wait_until(
        lambda: len(found := [line for line in worker.lines if "handler raised" in line]) == 2 and found,
        timeout_seconds=30,
        what="Celery logs both hooks",
    )
    assert MASK in row["error"]
    assert all(MASK in line for line in lines)
    assert is_hidden([row, failed, lines])


def test_what_a_task_returns_is_masked_in_events_and_logs(site, worker, events):
    result = site.tasks["probe.tell_in_result"].delay("in result", SECRET)

    (succeeded,) = event_of(events, result.id, "task-succeeded")
    assert succeeded["result"] == f"'charged {MASK}'"


def test_the_reasons_of_snoozes_and_cancels_are_masked(site, worker, tmp_path):
    result = site.tasks["probe.tell_in_snooze"].delay("snoozed", SECRET, str(tmp_path / "marker"))

    (snoozed,) = worker.wait_for_log("task snoozed", task_id=result.id)
    (cancelled,) = worker.wait_for_log("task cancelled", task_id=result.id)
    assert snoozed["reason"].startswith("snoozed for 0.05 s")
    assert cancelled["reason"] == f"no {MASK}"
    assert is_hidden(snoozed)


def test_a_task_killed_at_its_hard_limit_is_masked(site, worker, events):
    result = site.tasks["probe.tell_in_time"].delay("in time", SECRET)

    (row,) = site.dead_letters.wait_for(task_id=result.id, reason="time_limit")
    failed = event_of(events, result.id, "task-failed")
    assert row["args"] == ["in time", MASK]
    assert is_hidden([row, failed])
    (line,) = worker.wait_for_log(f"hold on to {MASK}")
    assert line["task_id"] == result.id


def test_a_task_whose_process_dies_is_masked_with_the_attempts_before(site, worker, events):
    result = site.tasks["probe.tell_and_die"].delay("dies", SECRET)

    (row,) = site.dead_letters.wait_for(task_id=result.id, reason="poison")
    attempts = json.loads(row["attempts"])
    assert is_hidden([row, event_of(events, result.id, "task-failed")])
    assert [attempt["number"] for attempt in attempts] == [1, 2, 3]
    assert attempts[0]["error"] == f"ValueError: no {MASK}"
    assert all(attempt["error"].startswith("WorkerLostError: ") for attempt in attempts[1:])
    assert {attempt["worker"] for attempt in attempts} == {row["worker"]} != {""}


def test_messages_that_become_no_run_are_sealed(site, valkey, worker):
    settings = build_settings({"ENCRYPTION_KEYS": [KEY]})
    unknown = site.app.send_task("does.not.exist", ("unknown", SECRET), {"card": SECRET})
    broken = envelope(
        "broken",
        headers={"task": "probe.tell", "retries": "many", "argsrepr": f"({SECRET!r},)"},
        body=json.dumps([["broken", SECRET, "text"], {}, {}]),
    )
    valkey.client().lpush("default", json.dumps(broken))
    valkey.client().lpush("default", f"no message {SECRET}")

    for fields in ({"task_id": unknown.id}, {"task_id": "broken"}, {"reason": "undecodable"}):
        (row,) = site.dead_letters.wait_for(**fields)
        assert is_hidden(row)
        assert SECRET in unseal(row["sealed_raw"], settings)


def test_a_publisher_that_does_not_know_what_is_marked_gives_nothing_away(site, valkey, worker, events):
    """A stock producer sends the text of the arguments with the message."""
    message = envelope(
        "from afar",
        headers={"task": "probe.tell", "argsrepr": f"('from afar', {SECRET!r})", "kwargsrepr": SECRET},
        body=json.dumps([["from afar", SECRET, "text"], {}, {}]),
    )

    valkey.client().lpush("default", json.dumps(message))

    (row,) = site.dead_letters.wait_for(task_id="from afar")
    (received, *_) = event_of(events, "from afar", "task-received")
    assert received["args"] == f"('from afar', '{MASK}', 'text')"
    assert is_hidden([row, received])


def test_arguments_that_do_not_fit_are_masked(site, worker):
    result = site.app.send_task("probe.tell", (), {"key": "misfit", "card_numbr": SECRET})

    (row,) = site.dead_letters.wait_for(task_id=result.id)
    assert row["reason"] == "wrong_signature"
    assert is_hidden(row)


def test_what_follows_a_task_and_what_celery_calls_for_it_are_masked(site, worker, events):
    mend, collect, tell = (site.tasks[f"probe.{name}"] for name in ("mend", "collect", "tell"))
    step = (mend.s(None, "follows", "/nowhere") | collect.s("never", SECRET)).apply_async(
        link_error=site.tasks["probe.note_failure"].s("follows.error", SECRET)
    )
    starmap = tell.starmap([["starmap", SECRET, "text"]]).apply_async()

    (row,) = site.dead_letters.wait_for(task_name="probe.mend")
    (of_map,) = site.dead_letters.wait_for(task_id=starmap.id)
    wait_until(lambda: step.state == "FAILURE", timeout_seconds=30, what="the next step has failed, too")
    (failed,) = event_of(events, starmap.id, "task-failed")
    assert is_hidden([row, of_map, failed])
    assert "probe.collect" in row["canvas"]
    assert row["sealed"]


def test_flower_shows_a_mask(site, worker, flower):
    hidden = site.tasks["probe.tell"].delay("flower", SECRET, "text")
    site.dead_letters.wait_for(task_id=hidden.id)

    page = wait_until(
        lambda: "FAILURE" in (text := flower.page(f"/task/{hidden.id}")) and text,
        timeout_seconds=30,
        what="Flower knows that the task has failed",
    )

    everything = page + flower.page("/api/tasks?limit=1000") + flower.page("/tasks")
    assert not shows(everything)
    assert MASK in page


def test_the_admin_shows_a_mask(site, worker):
    result = site.tasks["probe.tell"].delay("admin", SECRET, "text")
    site.dead_letters.wait_for(task_id=result.id)

    pages = site.start_console().value("admin_pages")

    assert len(pages) > 2
    assert [path for path, text in pages.items() if shows(text)] == []
    assert any(MASK in text for text in pages.values())


def test_these_tests_would_see_it(site, valkey):
    """The other way round: the message holds it while it waits."""
    site.tasks["probe.hold_secret"].apply_async(("later", "gate", SECRET), countdown=600)

    found = "\n".join(contents_of(valkey.client()))
    (body,) = re.findall(r'"body": ?"([A-Za-z0-9+/=]+)"', found)
    valkey.client().flushdb()

    assert shows(base64.b64decode(body).decode())
