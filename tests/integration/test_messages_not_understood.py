"""What no worker can understand: the worker lives, and each message is kept once, where people see it."""

import json

import pytest

from tests.support.envelopes import envelope, pickled
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def site(broker, shared_site):
    return shared_site(broker.url)


@pytest.fixture(scope="module")
def worker(site):
    return site.start_worker(processes=2)


def in_json(key, **changes):
    return json.dumps(envelope(key, **changes)).encode()


OLD_PROTOCOL = json.dumps({"task": "probe.record", "args": [], "kwargs": {}})

# What is on the list, and the reason under which it is kept. A task id is only there where it can be read.
MESSAGES = {
    "unknown task": (lambda key: in_json(key, headers={"task": "does.not.exist"}), "unknown_task"),
    "body not JSON": (lambda key: in_json(key, body="this is not JSON"), "undecodable"),
    "body not text": (lambda key: in_json(key, body=b"\xff\xfe\x00"), "undecodable"),
    "unknown content type": (lambda key: in_json(key, content_type="application/x-new"), "invalid"),
    "old protocol without an id": (
        lambda key: in_json(key, headers={"task": None, "id": None}, body=OLD_PROTOCOL),
        "invalid",
    ),
    "no task name": (lambda key: in_json(key, headers={"task": None}), "invalid"),
    "task name not text": (lambda key: in_json(key, headers={"task": ["probe.record"]}), "invalid"),
    "no headers": (lambda key: in_json(key, headers=None), "invalid"),
    "body of another shape": (lambda key: in_json(key, body='"only text"'), "invalid"),
    "body too short": (lambda key: in_json(key, body="[[]]"), "invalid"),
    "arguments not a list": (lambda key: in_json(key, body=json.dumps([7, {}, {}])), "invalid"),
    "no task id": (lambda key: in_json(key, headers={"id": None}), "invalid"),
    "limits that are none": (lambda key: in_json(key, headers={"timelimit": ["soon", "later"]}), "invalid"),
    "retries that are none": (lambda key: in_json(key, headers={"retries": "many"}), "invalid"),
    "an id that is none": (lambda key: in_json(key, headers={"id": [key]}), "invalid"),
    "a start time that is none": (lambda key: in_json(key, headers={"eta": "tomorrow"}), "invalid"),
    "an expiry that is none": (lambda key: in_json(key, headers={"expires": "tomorrow"}), "invalid"),
    "envelope not JSON": (lambda key: f"garbage {key}".encode(), "undecodable"),
    "envelope not text": (lambda key: b"\xff\x00\xfe" + key.encode(), "undecodable"),
    "envelope a list": (lambda key: json.dumps([key]).encode(), "undecodable"),
    "envelope too deep": (lambda key: b"[" * 100_000 + key.encode(), "undecodable"),
    "no properties": (lambda key: in_json(key, properties=None), "undecodable"),
    "no delivery tag": (lambda key: in_json(key, properties={"delivery_tag": None}), "undecodable"),
    "no delivery info": (lambda key: in_json(key, properties={"delivery_info": None}), "undecodable"),
    "no body": (lambda key: in_json(key, body=None), "undecodable"),
    "body not base64": (
        lambda key: json.dumps(envelope(key) | {"body": "%%% not base64 %%%"}).encode(),
        "undecodable",
    ),
    "headers a list": (lambda key: in_json(key, headers=["task"]), "undecodable"),
}


@pytest.fixture
def next_task_runs(site, worker):
    """Says whether the worker lives: a task that is published now runs."""

    def check(key):
        site.tasks["probe.record"].delay(f"after {key}")
        site.history.wait_for_end(f"after {key}")
        assert worker.is_running

    return check


def complaints(worker, before):
    """Return the log lines since then that say that something is wrong."""
    events = [json.loads(line) for line in worker.lines[before:]]
    return [event for event in events if event["level"] in ("warning", "error", "critical")]


@pytest.mark.parametrize("kind", MESSAGES)
def test_it_is_kept_once_with_one_log_line_and_the_worker_goes_on(broker, site, worker, next_task_runs, kind):
    make, reason = MESSAGES[kind]
    key = kind.replace(" ", "-")
    before, rows_before = len(worker.lines), len(site.dead_letters.rows())

    broker.client().lpush("default", make(key))

    site.dead_letters.wait_for(count=rows_before + 1)
    next_task_runs(key)
    (row,) = site.dead_letters.rows()[rows_before:]
    assert (row["reason"], row["queue"]) == (reason, "default")
    wait_until(lambda: complaints(worker, before), timeout_seconds=10, what="the worker logs it")
    (line,) = complaints(worker, before)
    assert (line["message"], line["reason"], line["queue"]) == ("dead letter", reason, "default")
    assert site.history.starts(key) == []
    assert broker.client().llen("default.undecodable") == 0


def test_a_pickle_is_refused_and_never_loaded(broker, site, worker, next_task_runs, tmp_path):
    trap = tmp_path / "loaded"
    message = envelope("pickle", body=pickled(str(trap)), content_type="application/x-python-serialize")

    broker.client().lpush("default", json.dumps(message))

    (row,) = site.dead_letters.wait_for(task_id="pickle")
    next_task_runs("pickle")
    assert row["reason"] == "invalid"
    assert "x-python-serialize" in row["error"]
    assert not trap.exists()


def test_the_call_of_a_task_that_nobody_knows_can_be_found_by_its_id_and_read(site, worker):
    result = site.app.send_task(
        "does.not.exist", (1, "two"), queue="high", headers={"correlation_id": "request-9"}
    )

    (row,) = site.dead_letters.wait_for(task_id=result.id)
    assert (row["task_name"], row["queue"], row["correlation_id"]) == ("does.not.exist", "high", "request-9")
    assert '[1, "two"]' in site.dead_letters.message(row)
    assert len(worker.wait_for_log("dead letter", task_id=result.id, level="error")) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"headers": {"published_at": "yesterday", "first_published_at": "earlier"}},
        {"headers": {"worker_losses": "none yet"}},
        {"properties": {"priority": "urgent"}},
        {"content_encoding": "utf-99"},
    ],
    ids=str,
)
def test_what_can_be_understood_all_the_same_runs(broker, site, worker, changes):
    key = f"odd {changes}"

    broker.client().lpush("default", in_json(key, **changes))

    site.history.wait_for_end(key)
    assert site.dead_letters.rows(task_id=key) == []


@pytest.mark.parametrize("arguments", [(), ("key", "one too many")], ids=["too few", "too many"])
def test_a_call_that_does_not_fit_the_signature_is_kept_after_one_run(site, worker, arguments):
    """As after a deployment that changed it; put back, the message would run again at once and for ever."""
    result = site.app.send_task("probe.record", arguments)

    (row,) = site.dead_letters.wait_for(task_id=result.id)
    worker.wait_for_log("task failed", task_id=result.id)
    assert row["error"].startswith("TypeError: ")
    assert len(worker.log_events("task started", task_id=result.id)) == 1
    assert worker.log_events("task put back", task_id=result.id) == []


def test_a_flood_of_garbage_does_not_keep_a_good_task_from_running(broker, site, worker, next_task_runs):
    rows_before, lines_before = len(site.dead_letters.rows()), len(worker.log_events("dead letter"))
    broker.client().lpush("default", *(f"garbage {number}" for number in range(50)))

    next_task_runs("flood")

    worker.wait_for_log("dead letter", count=lines_before + 50)
    assert len(site.dead_letters.rows()) == rows_before + 50
