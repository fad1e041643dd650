"""A run that ends in what is no `Exception`, and a message that no pool takes: nothing lost, worker alive."""

from __future__ import annotations

import json

import pytest

from tests.probe_app.abnormal import ENDINGS
from tests.support.envelopes import envelope

pytestmark = pytest.mark.faults
DEPTH = 900


@pytest.fixture(scope="module")
def site(valkey, shared_site):
    return shared_site(valkey.url)


@pytest.fixture(scope="module")
def worker(site):
    return site.start_worker(processes=2)


@pytest.fixture
def push(valkey):
    """Put a message on the queue `default` as it is."""
    return lambda message: valkey.client().lpush("default", json.dumps(message))


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_policy_retries_it_and_the_store_keeps_it(site, worker, ending):
    result = site.tasks["probe.end_abnormally"].delay(f"always {ending}", ending)

    (row,) = site.dead_letters.wait_for(task_id=result.id)
    assert len(site.history.starts(f"always {ending}")) == 3
    assert row["reason"] == "retries_exhausted"
    assert type(ENDINGS[ending]).__qualname__ in row["error"]
    assert str(ENDINGS[ending]) in row["error"]
    assert "abnormal.py" in row["error_place"]
    worker.assert_alive()


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_retry_of_an_idempotent_task_finds_its_key_free(site, worker, ending):
    site.tasks["probe.end_abnormally_once"].delay(f"once {ending}", ending)

    site.history.wait_for_end(f"once {ending}")
    assert len(site.history.starts(f"once {ending}")) == 2


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "headers",
    [
        {"stamped_headers": 5},
        {"stamped_headers": True},
        {"stamped_headers": [["a"]]},
        {"stamps": 5},
        {"tenant": nested(DEPTH)},
        {"shadow": nested(DEPTH)},
    ],
    ids=["number", "boolean", "no texts", "stamps", "deep header", "deep shadow"],
)
def test_a_message_with_odd_headers_becomes_a_dead_letter_and_the_worker_goes_on(
    site, worker, push, request, headers
):
    key = request.node.name

    push(envelope(key, headers=headers))

    (row,) = site.dead_letters.wait_for(task_id=key)
    assert row["reason"] == "invalid"
    assert site.history.starts(key) == []
    assert_works(site, worker, key)


def test_arguments_that_are_nested_too_deeply_for_the_pool(site, worker, push):
    push(envelope("deep", body=f"[[{'[' * DEPTH}{']' * DEPTH}], {{}}, {{}}]"))

    (row,) = site.dead_letters.wait_for(task_id="deep")
    assert row["reason"] == "invalid"
    assert_works(site, worker, "deep")


def assert_works(site, worker, key):
    """Both processes take a task after it, and nothing is left on its way."""
    for number in range(4):
        site.tasks["probe.record"].delay(f"{key} then {number}")
    for number in range(4):
        site.history.wait_for_end(f"{key} then {number}")
    worker.assert_alive()
