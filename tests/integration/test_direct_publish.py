"""The short way to the broker gives the same messages as Celery's way, and leaves the trouble to it."""

from __future__ import annotations

import base64
import json
import os
import uuid
from datetime import UTC, datetime
from decimal import Decimal

import celery
import pytest
from celery import signals
from kombu.utils.json import loads

from tests.support.envelopes import task_ids
from tests.support.processes import forked_exit_code

pytestmark = pytest.mark.integration
RESTORED = [datetime(2026, 1, 1, tzinfo=UTC), uuid.UUID(int=7), Decimal("1.10"), "\u00e9\ud800", 2**70]
# What differs from message to message.
OF_THE_MESSAGE = {"published_at", "first_published_at", "id", "root_id", "correlation_id", "delivery_tag"}


@pytest.fixture
def site(own_valkey, new_site):
    return new_site(own_valkey.url)


@pytest.fixture
def learned(site):
    """A site whose application has published once, and goes the short way from then on."""
    site.tasks["probe.record"].apply_async(["first"])
    assert site.app.direct.is_ready_for("default")
    return site


@pytest.fixture
def listen():
    """Connect receivers to Celery's signals for the time of the test."""
    connected = []

    def connect(signal, receiver):
        signal.connect(receiver, weak=False)
        connected.append((signal, receiver))

    yield connect
    for signal, receiver in connected:
        signal.disconnect(receiver)


def messages(server, queue="default"):
    return [json.loads(raw) for raw in reversed(server.client().lrange(queue, 0, -1))]


def body(message):
    return loads(base64.b64decode(message["body"]))


def without(part):
    return {key: value for key, value in part.items() if key not in OF_THE_MESSAGE}


@pytest.mark.parametrize("way", ["one", "many"])
@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("a",), {}),
        ((), {"key": "a"}),
        (('it\'s "quoted"',), {}),
        (("x" * 2000,), {}),
        *[(([value],), {}) for value in RESTORED],
    ],
)
def test_the_message_is_that_of_celerys_way(own_valkey, site, way, args, kwargs):
    task = site.tasks["probe.record"]
    options = {"headers": {"tenant": "t1"}, "priority": 5}
    task.apply_async(args, kwargs, **options)

    if way == "one":
        task.apply_async(args, kwargs, **options)
    else:
        task.enqueue_many([(args, kwargs)], **options)

    long_way, short_way = messages(own_valkey)
    assert without(short_way["headers"]) == without(long_way["headers"])
    assert without(short_way["properties"]) == without(long_way["properties"])
    assert {*short_way} == {*long_way}
    assert body(short_way) == body(long_way)
    assert short_way["properties"]["delivery_tag"] != long_way["properties"]["delivery_tag"]
    assert short_way["headers"]["id"] == short_way["properties"]["correlation_id"]


def test_both_ways_are_taken(own_valkey, learned, listen):
    """Without this, the comparison above may compare one way with itself."""
    commands = own_valkey.client().info("commandstats")
    learned.tasks["probe.record"].apply_async(["second"])

    after = own_valkey.client().info("commandstats")
    assert after["cmdstat_evalsha"]["calls"] == commands.get("cmdstat_evalsha", {"calls": 0})["calls"] + 1
    # Kombu would have declared the queue, or looked whether it is
    assert after.get("cmdstat_sadd") == commands.get("cmdstat_sadd")
    assert learned.app.direct.is_ready_for("default")


def test_priorities_and_queues_are_kept(own_valkey, learned):
    task = learned.tasks["probe.record"]
    for priority in (0, 5, 9):
        task.apply_async([str(priority)], priority=priority, queue="high")
        task.enqueue_many([(str(priority),)], priority=priority, queue="high")

    client = own_valkey.client()
    keys = {key.decode(): client.llen(key) for key in client.keys("high*")}
    assert keys == {"high": 2, "high\x06\x161": 2, "high\x06\x169": 2}


def test_celerys_signals_are_sent_and_may_change_the_message(own_valkey, learned, listen):
    seen = []
    listen(signals.before_task_publish, lambda headers, **given: headers.update(trace="t-1", at=RESTORED[0]))
    listen(signals.after_task_publish, lambda sender, body, **_: seen.append((sender, list(body[0]))))

    learned.tasks["probe.record"].apply_async(["one"])
    learned.tasks["probe.record"].enqueue_many([("two",)])

    assert seen == [("probe.record", ["one"]), ("probe.record", ["two"])]
    assert [message["headers"].get("trace") for message in messages(own_valkey)] == [None, "t-1", "t-1"]


def test_whoever_wraps_apply_async_sees_each_call_of_a_bulk(learned, monkeypatch):
    seen = []
    original = celery.Task.apply_async

    def wrapper(self, args=None, *rest, **options):
        seen.append(args)
        return original(self, args, *rest, **options)

    monkeypatch.setattr(celery.Task, "apply_async", wrapper)
    learned.tasks["probe.record"].enqueue_many([("one",), ("two",)])

    assert seen == [("one",), ("two",)]


def test_a_call_that_does_not_fit_is_refused_and_nothing_of_its_chunk_is_sent(own_valkey, learned):
    with pytest.raises(TypeError):
        learned.tasks["probe.record"].enqueue_many([("one",), ("two", "too many")])

    assert len(messages(own_valkey)) == 1


def test_marked_arguments_are_masked_in_bulk_too(own_valkey, learned):
    task = learned.tasks["probe.fail_secret"]
    task.apply_async(["a", "4111"])
    task.apply_async(["a", "4111"])
    task.enqueue_many([("a", "4111"), ("b", "4112")])

    for message in messages(own_valkey)[1:]:
        assert "411" not in message["headers"]["argsrepr"]
    assert [body(message)[0][1] for message in messages(own_valkey)[1:]] == ["4111", "4111", "4111", "4112"]


def test_a_restarted_broker_gets_each_message_once(own_valkey, learned):
    task = learned.tasks["probe.record"]
    task.apply_async(["before"])

    own_valkey.kill()
    own_valkey.restart()
    results = [task.apply_async([str(number)]) for number in range(3)]
    bulk = task.enqueue_many([("many",)])

    assert task_ids(own_valkey.client(), "default")[2:] == [
        *(result.id for result in results),
        *bulk.task_ids,
    ]
    assert learned.app.direct.is_ready_for("default")


def test_a_bulk_call_finds_that_its_connection_was_closed_before_it_sends(own_valkey, learned):
    """Nobody knew otherwise which messages have arrived, and the caller would have to send them again."""
    task = learned.tasks["probe.record"]
    task.enqueue_many([("before",)])

    own_valkey.client().client_kill_filter(_type="normal", skipme=True)
    result = task.enqueue_many([("after",)])

    assert task_ids(own_valkey.client(), "default")[-1:] == list(result.task_ids)


def test_a_forked_process_does_not_use_the_connection_of_its_parent(own_valkey, learned):
    task = learned.tasks["probe.record"]
    task.apply_async(["parent"])

    code = forked_exit_code(lambda: [task.apply_async([f"child {number}"]) for number in range(5)])

    task.apply_async(["parent again"])
    keys = [body(message)[0][0] for message in messages(own_valkey)]
    assert code == os.EX_OK
    assert keys == ["first", "parent", *(f"child {number}" for number in range(5)), "parent again"]
