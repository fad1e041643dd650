"""Messages that were lost with their workers too often: kept as calls, where they can be read."""

import json

import pytest

from taskyard.conf import build_settings
from taskyard.masking import MASK
from taskyard.sealing import unseal
from taskyard.tasks.attempts import pack
from taskyard.transport.keys import dead_key
from tests.support.envelopes import envelope
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
SECRET = "4929-9999-0000-1111"
KEY = "a-key-of-these-tests-only"
SETTINGS = build_settings({"ENCRYPTION_KEYS": [KEY]})
EARLIER = [{"number": 1, "at": 1.5, "worker": "w1", "error": "OSError: first", "traceback": ""}]


@pytest.fixture(scope="module")
def site(valkey, shared_site):
    return shared_site(valkey.url, ENCRYPTION_KEYS=json.dumps([KEY]))


@pytest.fixture(scope="module", autouse=True)
def worker(site):
    return site.start_worker()


def body(args, kwargs=None, **embedded):
    return json.dumps([args, kwargs or {}, embedded])


STEP = {"task": "probe.collect", "args": [SECRET], "kwargs": {}, "options": {}, "immutable": False}
KNOWN = {
    "headers": {"task": "probe.tell", "attempts": pack(EARLIER), "tenant": "acme", "argsrepr": SECRET},
    "body": body(["known", SECRET, "text"], chain=[STEP]),
}
NO_CALLS = {
    "unknown": {"headers": {"task": "does.not.exist"}, "body": body(["unknown", SECRET])},
    "no-call": {"headers": {"task": "probe.tell"}, "body": json.dumps({"card": SECRET})},
    "no-json": {"headers": {"task": "probe.tell"}, "body": f"{SECRET} is no JSON"},
    "odd-limits": {"headers": {"task": "probe.tell", "timelimit": 7}, "body": body(["x", SECRET, "text"])},
    "odd-type": {"content_type": "application/x-new", "body": body([SECRET])},
}


@pytest.fixture(scope="module", autouse=True)
def rows(site, worker, valkey):
    """Put all of them on the dead list at once, and return the row that each becomes."""
    for key, changes in {"known": KNOWN, **NO_CALLS}.items():
        headers = {"x-delivery-count": 4, **changes.get("headers", {})}
        message = envelope(key, **{**changes, "headers": headers})
        valkey.client().lpush(dead_key("default"), json.dumps(message))
    found = site.dead_letters.wait_for(count=1 + len(NO_CALLS), reason="poison")
    return {row["task_id"]: row for row in found}


def test_a_known_task_is_kept_with_all_that_belongs_to_it(rows):
    row = rows["known"]

    assert (row["reason"], row["queue"], row["priority"]) == ("poison", "default", 5)
    assert row["args"] == ["known", MASK, "text"]
    assert row["error"] == "WorkerLostError: The worker that ran it died or lost its lease 4 times"
    assert (row["error_type"], row["error_place"]) == ("billiard.exceptions.WorkerLostError", "")
    assert [attempt["number"] for attempt in json.loads(row["attempts"])] == [1, 2]
    assert row["headers"]["tenant"] == "acme"
    assert row["sealed_raw"] == ""
    assert SECRET not in json.dumps(row, default=str)
    sealed = unseal(row["sealed"], SETTINGS)
    assert sealed["args"] == ["known", SECRET, "text"]
    assert sealed["canvas"]["chain"] == [STEP]


@pytest.mark.parametrize("key", NO_CALLS)
def test_what_is_no_call_for_this_worker_is_kept_as_it_came(rows, key):
    assert SECRET not in json.dumps(rows[key], default=str)
    assert SECRET in unseal(rows[key]["sealed_raw"], SETTINGS)


def test_nothing_is_left_on_the_list(rows, valkey):
    wait_until(
        lambda: valkey.client().llen(dead_key("default")) == 0, timeout_seconds=10, what="the list is empty"
    )
